package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kohort/interop/peer"
)

var balancers = map[string]kgo.GroupBalancer{
	"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

func names(partitions map[string][]int32) []string {
	all := []string{}
	for topic, ids := range partitions {
		for _, id := range ids {
			all = append(all, fmt.Sprintf("%s-%d", topic, id))
		}
	}
	sort.Strings(all)
	return all
}

func told(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		peer.Emit(event, peer.Fields{"partitions": names(partitions)})
	}
}

func (f *franz) membership() []kgo.Opt {
	session := time.Duration(f.options.Number("session", 6000)) * time.Millisecond
	options := []kgo.Opt{
		kgo.ConsumerGroup(f.options.Group()),
		kgo.ConsumeTopics(strings.Split(f.topic, "+")...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(session),
		kgo.RebalanceTimeout(20 * time.Second),
		kgo.HeartbeatInterval(250 * time.Millisecond),
		kgo.OnPartitionsAssigned(told("assigned")),
		kgo.OnPartitionsRevoked(told("revoked")),
		kgo.OnPartitionsLost(told("lost")),
	}
	chosen := []kgo.GroupBalancer{}
	for _, name := range strings.Split(f.options.Text("assignor", "range"), "+") {
		chosen = append(chosen, balancers[name])
	}
	options = append(options, kgo.Balancers(chosen...))
	if f.options.Text("protocol", "") == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	if instance := f.options.Text("instance", ""); instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	return options
}

func (f *franz) commit(client *kgo.Client) error {
	if err := client.CommitUncommittedOffsets(f.ctx); err != nil {
		return err
	}
	offsets := map[string]int64{}
	for topic, partitions := range client.CommittedOffsets() {
		for id, at := range partitions {
			offsets[fmt.Sprintf("%s-%d", topic, id)] = at.Offset
		}
	}
	peer.Emit("committed", peer.Fields{"offsets": offsets})
	return nil
}

// denied is the first error that says that a right is missing; the client goes on after all others.
func denied(fetches kgo.Fetches) error {
	for _, each := range fetches.Errors() {
		if errors.Is(each.Err, kerr.TopicAuthorizationFailed) || errors.Is(each.Err, kerr.GroupAuthorizationFailed) {
			return each.Err
		}
	}
	return nil
}

func (f *franz) group() error {
	client, err := f.connection(f.membership()...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(f.ctx)
	go func() {
		<-peer.Stopped()
		cancel()
	}()
	seen, wanted := 0, f.options.Number("records", 1<<30)
	for seen < wanted && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if err := denied(fetches); err != nil {
			return err
		}
		count := fetches.NumRecords()
		fetches.EachRecord(show)
		seen += count
		if count > 0 {
			// A commit that crosses a new epoch is refused, by Kafka too: the next one covers it.
			if err := f.commit(client); err != nil && !errors.Is(err, kerr.StaleMemberEpoch) {
				return err
			}
		}
	}
	peer.Emit("leaving", peer.Fields{"count": seen})
	cancel()
	client.Close()
	peer.Emit("closed", peer.Fields{"count": seen})
	return nil
}
