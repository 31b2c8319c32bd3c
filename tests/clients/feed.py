"""Records for a group to work on, a portion at a time."""

from confluent_kafka import Consumer, TopicPartition
from tests.clients.libraries import Production, ReadPartition
from tests.clients.records import samples
from tests.clients.with_confluent import Confluent, settings


class Feed:
    """Fills one topic; knows how many records each partition has."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self.places = [ReadPartition(topic, number) for number in range(partitions)]
        self.expected = dict.fromkeys(self.places, 0)
        self._bootstrap = bootstrap

    def more(self, each: int) -> None:
        """Another ``each`` records for every partition."""
        count = len(self.places)
        Confluent().produce(
            self._bootstrap, self.topic, samples(each * count, partitions=count), Production()
        )
        for place in self.places:
            self.expected[place] += each

    def begin(self, group: str) -> None:
        """Commit the beginning of every partition, as a consumer outside the group may while it is empty.

        librdkafka 2.16 looks up the reset offset of a partition without a commit on a timer that outlives a
        revocation: when it fires after the partition came back, the member starts at the beginning whatever
        was committed meanwhile. With a commit there is nothing to look up.
        """
        outsider = Consumer(settings(self._bootstrap, group_id=group))
        try:
            starts = [TopicPartition(*place, 0) for place in self.places]
            answers = outsider.commit(offsets=starts, asynchronous=False)
            assert all(answer.error is None for answer in answers)
        finally:
            outsider.close()
