package main

import (
	"context"
	"errors"

	"github.com/IBM/sarama"
)

// handler works on claims; it goes on with a record that it has begun, whatever becomes of the session meanwhile.
type handler struct{}

func (handler) Setup(session sarama.ConsumerGroupSession) error {
	writeEvent("assigned", map[string]any{
		"partitions": places(session.Claims()), "member_id": session.MemberID(), "generation": session.GenerationID(),
	})
	return nil
}

func (handler) Cleanup(session sarama.ConsumerGroupSession) error {
	writeEvent("revoked", map[string]any{"partitions": places(session.Claims())})
	return nil
}

func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, open := <-claim.Messages():
			if !open {
				return nil
			}
			tellRecords(map[place][2]int64{{record.Topic, record.Partition}: {record.Offset, record.Offset}}, 1)
			work()
			session.MarkMessage(record, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func consumeSarama() error {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if wanted.ClientID != "" {
		config.ClientID = wanted.ClientID
	}
	if wanted.SessionMs > 0 {
		config.Consumer.Group.Session.Timeout = milliseconds(wanted.SessionMs)
	}
	if wanted.HeartbeatMs > 0 {
		config.Consumer.Group.Heartbeat.Interval = milliseconds(wanted.HeartbeatMs)
	}
	if wanted.RebalanceMs > 0 {
		config.Consumer.Group.Rebalance.Timeout = milliseconds(wanted.RebalanceMs)
	}
	if wanted.CommitMs > 0 {
		config.Consumer.Offsets.AutoCommit.Interval = milliseconds(wanted.CommitMs)
	}
	if wanted.ReadMs > 0 {
		config.Net.ReadTimeout = milliseconds(wanted.ReadMs)
	}
	if wanted.Balancer == "roundrobin" {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin()}
	}
	group, err := sarama.NewConsumerGroup([]string{wanted.Bootstrap}, wanted.Group, config)
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
		if err := group.Consume(ctx, []string{wanted.Topic}, handler{}); err != nil && !errors.Is(err, context.Canceled) {
			writeEvent("error", map[string]any{"error": err.Error()})
		}
	}
	return group.Close()
}
