import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Producing and fetching without a group. */
final class DataSteps {
    private DataSteps() {}

    static void produce(Options options) throws Exception {
        for (String codec : options.text("codecs", "none,gzip,snappy,lz4,zstd").split(",")) {
            Properties properties = options.properties();
            properties.put("compression.type", codec);
            properties.put("linger.ms", "50");
            try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
                produceWith(producer, codec, options);
            }
        }
    }

    private static void produceWith(KafkaProducer<String, String> producer, String codec, Options options)
            throws Exception {
        var sent = new ArrayList<java.util.concurrent.Future<org.apache.kafka.clients.producer.RecordMetadata>>();
        for (int i = 0; i < options.number("count", 3); i++) {
            var record = new ProducerRecord<>(options.topic(), 0, codec + "-key", codec + "-" + i);
            record.headers().add("codec", codec.getBytes());
            sent.add(producer.send(record));
        }
        List<Long> offsets = new ArrayList<>();
        for (var each : sent) {
            offsets.add(each.get().offset());
        }
        Events.emit("produced", "codec", codec, "offsets", offsets);
    }

    /** Spreads records over all partitions by key, for group tests. */
    static void spread(Options options) throws Exception {
        int count = options.number("count", 30);
        var sent = new ArrayList<java.util.concurrent.Future<?>>();
        try (var producer =
                new KafkaProducer<>(options.properties(), new StringSerializer(), new StringSerializer())) {
            int partitions = producer.partitionsFor(options.topic()).size();
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(new ProducerRecord<>(options.topic(), i % partitions, "k" + i, "v" + i)));
            }
            producer.flush();
        }
        for (var each : sent) {
            each.get();
        }
        Events.emit("spread", "count", count);
    }

    static Properties consumerProperties(Options options) {
        Properties properties = options.properties();
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("fetch.max.wait.ms", "200");
        return properties;
    }

    static void show(ConsumerRecord<String, String> record) {
        var header = record.headers().lastHeader("codec");
        Events.emit(
                "record",
                "partition", record.partition(),
                "offset", record.offset(),
                "key", record.key(),
                "value", record.value(),
                "header", header == null ? null : new String(header.value()));
    }

    static void fetch(Options options) {
        int wanted = options.number("records", 15);
        long deadline = System.currentTimeMillis() + options.number("idle", 15000);
        Properties properties = consumerProperties(options);
        int seen = 0;
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition partition = new TopicPartition(options.topic(), 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            while (seen < wanted && System.currentTimeMillis() < deadline) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    show(record);
                    seen++;
                }
            }
            Events.emit("fetched", "count", seen, "position", consumer.position(partition));
        }
    }
}
