import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own producer sends ready messages: `java Produce.java BROKERS FROM TO MESSAGES WARMING TRANSACTION`.
 *
 * <p>It holds the first messages of the topic FROM as bytes, and sends them over and over to the topic TO, each to
 * the partition where it was, in Kafka transactions of so many. WARMING messages come before the clock starts. It
 * prints the messages per second.
 */
final class Produce {
    private static final int HELD = 20_000;

    private Produce() {}

    public static void main(String[] arguments) {
        String brokers = arguments[0];
        List<ConsumerRecord<byte[], byte[]>> held = held(brokers, arguments[1]);
        int messages = Integer.parseInt(arguments[3]);
        int warming = Integer.parseInt(arguments[4]);
        int transaction = Integer.parseInt(arguments[5]);
        try (var producer = producer(brokers)) {
            producer.initTransactions();
            send(producer, held, arguments[2], warming, transaction);
            long begun = System.nanoTime();
            send(producer, held, arguments[2], messages, transaction);
            System.out.println(messages * 1e9 / (System.nanoTime() - begun));
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> held(String brokers, String topic) {
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers, "isolation.level", "read_committed");
        List<ConsumerRecord<byte[], byte[]>> held = new ArrayList<>();
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes)) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .map(each -> new TopicPartition(topic, each.partition()))
                    .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (held.size() < HELD) {
                consumer.poll(Duration.ofSeconds(1)).forEach(held::add);
            }
        }
        Collections.shuffle(held, new Random(1)); // they came a partition at a time
        return held;
    }

    /** A producer for throughput: batches as large as Tidemark's. */
    private static KafkaProducer<byte[], byte[]> producer(String brokers) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", brokers,
                "transactional.id", "produce",
                "acks", "all",
                "batch.size", 900_000,
                "linger.ms", 5,
                "max.request.size", 8 << 20,
                "buffer.memory", 64L << 20);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void send(
            KafkaProducer<byte[], byte[]> producer,
            List<ConsumerRecord<byte[], byte[]>> held,
            String topic,
            int messages,
            int transaction) {
        for (int first = 0; first < messages; first += transaction) {
            producer.beginTransaction();
            for (int at = first; at < Math.min(messages, first + transaction); at++) {
                var message = held.get(at % held.size());
                producer.send(new ProducerRecord<>(topic, message.partition(), message.key(), message.value()));
            }
            producer.commitTransaction();
        }
    }
}
