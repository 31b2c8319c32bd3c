package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"kohort/interop/peer"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

type handler struct {
	seen   atomic.Int64
	wanted int64
	stop   context.CancelFunc
}

func names(claims map[string][]int32) []string {
	all := []string{}
	for topic, ids := range claims {
		for _, id := range ids {
			all = append(all, fmt.Sprintf("%s-%d", topic, id))
		}
	}
	sort.Strings(all)
	return all
}

// Setup is called when a generation has begun.
func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	peer.Emit("assigned", peer.Fields{
		"partitions": names(session.Claims()), "generation": session.GenerationID(), "member": session.MemberID(),
	})
	return nil
}

// Cleanup is called when a generation is over.
func (h *handler) Cleanup(session sarama.ConsumerGroupSession) error {
	peer.Emit("revoked", peer.Fields{"partitions": names(session.Claims())})
	return nil
}

// ConsumeClaim is called once for each partition, on its own goroutine.
func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			show(message)
			session.MarkMessage(message, "")
			session.Commit()
			name := fmt.Sprintf("%s-%d", message.Topic, message.Partition)
			peer.Emit("committed", peer.Fields{"offsets": map[string]int64{name: message.Offset + 1}})
			if h.seen.Add(1) >= h.wanted {
				h.stop()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (s *sailor) group() error {
	config := s.config()
	config.Consumer.Group.Session.Timeout = time.Duration(s.options.Number("session", 6000)) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = 250 * time.Millisecond
	config.Consumer.Group.Rebalance.Timeout = 20 * time.Second
	config.Consumer.Group.InstanceId = s.options.Text("instance", "")
	config.Consumer.Group.Rebalance.GroupStrategies = nil
	for _, name := range strings.Split(s.options.Text("assignor", "range"), "+") {
		config.Consumer.Group.Rebalance.GroupStrategies =
			append(config.Consumer.Group.Rebalance.GroupStrategies, strategies[name])
	}
	group, err := sarama.NewConsumerGroup([]string{s.options.Bootstrap}, s.options.Group(), config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	go func() {
		<-peer.Stopped()
		cancel()
	}()
	work := &handler{wanted: int64(s.options.Number("records", 1<<30)), stop: cancel}
	for ctx.Err() == nil {
		err := group.Consume(ctx, strings.Split(s.topic, "+"), work)
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	peer.Emit("leaving", peer.Fields{"count": work.seen.Load()})
	if err := group.Close(); err != nil {
		return err
	}
	peer.Emit("closed", peer.Fields{"count": work.seen.Load()})
	return nil
}
