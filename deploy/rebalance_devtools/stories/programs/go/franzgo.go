package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeFranzGo holds rebalances back while it works on what a poll returned, as its documentation advises.
func consumeFranzGo() error {
	tellPlaces := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, client *kgo.Client, owned map[string][]int32) {
			member, generation := client.GroupMetadata()
			writeEvent(event, map[string]any{"partitions": places(owned), "member_id": member, "generation": generation})
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(wanted.Bootstrap),
		kgo.ConsumerGroup(wanted.Group),
		kgo.ConsumeTopics(wanted.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(tellPlaces("assigned")),
		kgo.OnPartitionsRevoked(tellPlaces("revoked")),
		kgo.OnPartitionsLost(tellPlaces("lost")),
	}
	if wanted.ClientID != "" {
		options = append(options, kgo.ClientID(wanted.ClientID))
	}
	if wanted.SessionMs > 0 {
		options = append(options, kgo.SessionTimeout(milliseconds(wanted.SessionMs)))
	}
	if wanted.HeartbeatMs > 0 {
		options = append(options, kgo.HeartbeatInterval(milliseconds(wanted.HeartbeatMs)))
	}
	if wanted.RebalanceMs > 0 {
		options = append(options, kgo.RebalanceTimeout(milliseconds(wanted.RebalanceMs)))
	}
	if wanted.CommitMs > 0 {
		options = append(options, kgo.AutoCommitInterval(milliseconds(wanted.CommitMs)))
	}
	if wanted.Balancer == "roundrobin" {
		options = append(options, kgo.Balancers(kgo.RoundRobinBalancer()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	writeEvent("started", nil)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-stopped
		cancel()
	}()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, each := range fetches.Errors() {
			if !errors.Is(each.Err, context.Canceled) {
				writeEvent("error", map[string]any{"error": each.Err.Error()})
			}
		}
		offsets := map[place][2]int64{}
		fetches.EachRecord(func(record *kgo.Record) {
			at := place{record.Topic, record.Partition}
			ends, known := offsets[at]
			if !known {
				ends[0] = record.Offset
			}
			ends[1] = record.Offset
			offsets[at] = ends
		})
		if len(offsets) > 0 {
			tellRecords(offsets, fetches.NumRecords())
			work()
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	return nil
}
