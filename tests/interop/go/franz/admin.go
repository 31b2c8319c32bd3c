package main

import (
	"context"
	"fmt"
	"sort"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"kohort/interop/peer"
)

const retention = "retention.ms"

func (f *franz) connect() error {
	if err := f.client.Ping(f.ctx); err != nil {
		return err
	}
	metadata, err := f.admin.BrokerMetadata(f.ctx)
	if err != nil {
		return err
	}
	peer.Emit("connected", peer.Fields{
		"brokers": metadata.Brokers.NodeIDs(), "controller": metadata.Controller, "cluster": metadata.Cluster,
	})
	return nil
}

func (f *franz) create() error {
	configs := map[string]*string{retention: kadm.StringPtr("60000000")}
	partitions := int32(f.options.Number("partitions", 3))
	made, err := f.admin.CreateTopic(f.ctx, partitions, 1, configs, f.topic)
	if err != nil {
		return err
	}
	peer.Emit("created", peer.Fields{"topic": f.topic, "partitions": made.NumPartitions, "id": made.ID.String()})
	if err := peer.Settled("creation", f.has(int(partitions))); err != nil {
		return err
	}
	_, err = f.admin.CreateTopic(f.ctx, partitions, 1, configs, f.topic)
	if err == kerr.TopicAlreadyExists {
		peer.Emit("refused", peer.Fields{"what": "create", "error": "TopicAlreadyExists"})
		return nil
	}
	return err
}

func (f *franz) list() error {
	topics, err := f.admin.ListTopics(f.ctx)
	if err != nil {
		return err
	}
	peer.Emit("topics", peer.Fields{"names": topics.Names()})
	return nil
}

func (f *franz) partitions() (int, error) {
	topics, err := f.admin.ListTopics(f.ctx, f.topic)
	if err != nil {
		return 0, err
	}
	return len(topics[f.topic].Partitions), topics[f.topic].Err
}

func (f *franz) has(total int) func() (bool, error) {
	return func() (bool, error) {
		count, err := f.partitions()
		return count == total, err
	}
}

func (f *franz) describe() error {
	count, err := f.partitions()
	if err != nil {
		return err
	}
	peer.Emit("described", peer.Fields{"topic": f.topic, "partitions": count})
	return nil
}

func (f *franz) showRetention(wanted string) error {
	err := peer.Settled("a change of "+retention, func() (bool, error) {
		found, err := f.admin.DescribeTopicConfigs(f.ctx, f.topic)
		if err != nil {
			return false, err
		}
		for _, each := range found[0].Configs {
			if each.Key == retention && each.MaybeValue() == wanted {
				return true, nil
			}
		}
		return false, found[0].Err
	})
	if err == nil {
		peer.Emit("config", peer.Fields{"name": retention, "value": wanted})
	}
	return err
}

func (f *franz) configs() error {
	if err := f.showRetention("60000000"); err != nil {
		return err
	}
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: retention, Value: kadm.StringPtr("70000000")}}
	answers, err := f.admin.AlterTopicConfigs(f.ctx, change, f.topic)
	if err != nil {
		return err
	}
	if answers[0].Err != nil {
		return answers[0].Err
	}
	return f.showRetention("70000000")
}

func (f *franz) grow() error {
	total := f.options.Number("partitions", 3) + 1
	answers, err := f.admin.UpdatePartitions(f.ctx, total, f.topic)
	if err == nil {
		err = answers.Error()
	}
	if err == nil {
		err = peer.Settled("growth", f.has(total))
	}
	if err == nil {
		peer.Emit("grown", peer.Fields{"partitions": total})
	}
	return err
}

func firstOffset(found kadm.ListedOffsets, topic string, err error) (int64, error) {
	if err != nil {
		return -1, err
	}
	offset, there := found.Lookup(topic, 0)
	if !there {
		return -1, fmt.Errorf("no offset of %s-0 in the answer", topic)
	}
	return offset.Offset, offset.Err
}

func (f *franz) offsets() error {
	fields := peer.Fields{}
	asks := map[string]func(context.Context, ...string) (kadm.ListedOffsets, error){
		"earliest": f.admin.ListStartOffsets, "latest": f.admin.ListEndOffsets, "largest": f.admin.ListMaxTimestampOffsets,
	}
	for name, ask := range asks {
		found, err := ask(f.ctx, f.topic)
		if fields[name], err = firstOffset(found, f.topic, err); err != nil {
			return err
		}
	}
	peer.Emit("offsets", fields)
	return nil
}

func (f *franz) truncate() error {
	before := kadm.Offsets{}
	before.AddOffset(f.topic, 0, 1, -1)
	answers, err := f.admin.DeleteRecords(f.ctx, before)
	if err != nil {
		return err
	}
	answer, _ := answers.Lookup(f.topic, 0)
	peer.Emit("truncated", peer.Fields{"low": answer.LowWatermark})
	return answer.Err
}

func (f *franz) groups() error {
	listed, err := f.admin.ListGroups(f.ctx)
	if err != nil {
		return err
	}
	ids := listed.Groups()
	sort.Strings(ids)
	peer.Emit("groups", peer.Fields{"ids": ids})
	described, err := f.admin.DescribeGroups(f.ctx, f.options.Group())
	if err != nil {
		return err
	}
	group := described[f.options.Group()]
	peer.Emit("group", peer.Fields{"id": group.Group, "state": group.State, "members": len(group.Members)})
	return group.Err
}

func (f *franz) committed() error {
	found, err := f.admin.FetchOffsets(f.ctx, f.options.Group())
	if err != nil {
		return err
	}
	offsets := map[string]int64{}
	found.Each(func(each kadm.OffsetResponse) {
		offsets[fmt.Sprintf("%s-%d", each.Topic, each.Partition)] = each.At
	})
	peer.Emit("committed", peer.Fields{"offsets": offsets})
	return nil
}

func (f *franz) forget() error {
	answer, err := f.admin.DeleteGroup(f.ctx, f.options.Group())
	if err == nil {
		err = answer.Err
	}
	if err != nil {
		return err
	}
	peer.Emit("group-deleted", peer.Fields{"id": f.options.Group()})
	return nil
}

func (f *franz) remove() error {
	answer, err := f.admin.DeleteTopic(f.ctx, f.topic)
	if err == nil {
		err = answer.Err
	}
	if err != nil {
		return err
	}
	peer.Emit("deleted", peer.Fields{"topic": f.topic})
	return nil
}
