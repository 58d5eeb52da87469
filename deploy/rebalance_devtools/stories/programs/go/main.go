// Command plays is a consumer of franz-go or Sarama as stories run it, writing its events as event_log.py does.
//
//	plays '{"name": …, "library": "franz-go" or "sarama", "topic": …, "group": …, "bootstrap": …, …}'
//
// SIGTERM closes it in order. SIGUSR1 makes it work on the next record for stall_ms, in which it neither polls nor
// ends its claim.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// spec is what to run; zero values leave a setting as the library has it.
type spec struct {
	Name        string `json:"name"`
	Library     string `json:"library"`
	Bootstrap   string `json:"bootstrap"`
	Group       string `json:"group"`
	Topic       string `json:"topic"`
	ClientID    string `json:"client_id"`
	SessionMs   int    `json:"session_ms"`
	HeartbeatMs int    `json:"heartbeat_ms"`
	RebalanceMs int    `json:"rebalance_ms"`
	CommitMs    int    `json:"commit_ms"`
	ReadMs      int    `json:"read_ms"`
	Balancer    string `json:"balancer"`
	StallMs     int    `json:"stall_ms"`
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

var (
	wanted  spec
	stalls  atomic.Bool
	output  sync.Mutex
	stopped = make(chan struct{})
)

func main() {
	if err := json.Unmarshal([]byte(os.Args[1]), &wanted); err != nil {
		fail(err)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	go func() {
		for each := range signals {
			if each == syscall.SIGTERM {
				signal.Reset(syscall.SIGTERM)
				close(stopped)
				return
			}
			stalls.Store(true)
		}
	}()
	consume := map[string]func() error{"franz-go": consumeFranzGo, "sarama": consumeSarama}[wanted.Library]
	if err := consume(); err != nil {
		fail(err)
	}
	writeEvent("closed", nil)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}

// work spends the time that was asked for on a record.
func work() {
	if stalls.CompareAndSwap(true, false) {
		writeEvent("stalls", map[string]any{"milliseconds": wanted.StallMs})
		time.Sleep(milliseconds(wanted.StallMs))
	}
}

func milliseconds(count int) time.Duration { return time.Duration(count) * time.Millisecond }

// places returns partitions as pairs, in order.
func places(owned map[string][]int32) [][]any {
	found := [][]any{}
	for topic, partitions := range owned {
		sort.Slice(partitions, func(a, b int) bool { return partitions[a] < partitions[b] })
		for _, partition := range partitions {
			found = append(found, []any{topic, partition})
		}
	}
	return found
}

func writeEvent(event string, more map[string]any) {
	rest := ""
	if len(more) > 0 {
		text, err := json.Marshal(more)
		if err != nil {
			fail(err)
		}
		rest = ", " + string(text[1:len(text)-1])
	}
	output.Lock()
	defer output.Unlock()
	fmt.Printf(`{"t_ms": %d, "name": %q, "process": "%s/%d", "event": %q%s}`+"\n",
		time.Now().UnixMilli(), wanted.Name, wanted.Name, os.Getpid(), event, rest)
}

func tellRecords(offsets map[place][2]int64, count int) {
	ranges := [][]any{}
	for at, ends := range offsets {
		ranges = append(ranges, []any{at.topic, at.partition, ends[0], ends[1]})
	}
	writeEvent("records", map[string]any{"count": count, "ranges": ranges})
}
