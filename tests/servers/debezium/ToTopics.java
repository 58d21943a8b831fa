import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's embedded engine sends its messages to Kafka, as Kafka Connect does: `java ToTopics PROPERTIES`.
 *
 * <p>`topics.brokers` are the brokers. Keys, values and headers are JSON without schemas. A batch's offsets are stored after
 * the brokers have all of its messages. A line of standard output says how many have been sent. SIGTERM ends it cleanly.
 */
final class ToTopics {
    private final KafkaProducer<byte[], byte[]> producer;
    private final JsonConverter keys = new JsonConverter();
    private final JsonConverter values = new JsonConverter();
    private long sent = 0;

    private ToTopics(String brokers) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", brokers);
        settings.put("acks", "all");
        settings.put("max.in.flight.requests.per.connection", 1);
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        keys.configure(Map.of("schemas.enable", "false"), true);
        values.configure(Map.of("schemas.enable", "false"), false);
    }

    public static void main(String[] arguments) throws IOException {
        Properties properties = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(file);
        }
        ToTopics topics = new ToTopics(properties.getProperty("topics.brokers"));
        DebeziumEngine<RecordChangeEvent<SourceRecord>> engine = DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                .using(properties)
                .notifying(topics::take)
                .using((success, message, error) -> {
                    System.err.println(message);
                    if (error != null) {
                        error.printStackTrace();
                    }
                })
                .build();
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                engine.close();
                main.join();
            } catch (IOException | InterruptedException error) {
                error.printStackTrace();
            }
        }));
        engine.run();
    }

    private void take(
            List<RecordChangeEvent<SourceRecord>> batch,
            DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
            throws InterruptedException {
        List<Future<RecordMetadata>> underWay = new ArrayList<>();
        for (RecordChangeEvent<SourceRecord> event : batch) {
            SourceRecord record = event.record();
            String topic = record.topic();
            byte[] key = keys.fromConnectData(topic, record.keySchema(), record.key());
            byte[] value = values.fromConnectData(topic, record.valueSchema(), record.value());
            var message = new ProducerRecord<>(topic, record.kafkaPartition(), record.timestamp(), key, value);
            for (Header header : record.headers()) {
                message.headers()
                        .add(header.key(), values.fromConnectHeader(topic, header.key(), header.schema(), header.value()));
            }
            underWay.add(producer.send(message));
        }
        producer.flush();
        try {
            for (Future<RecordMetadata> each : underWay) {
                each.get();
            }
        } catch (ExecutionException error) {
            throw new IllegalStateException(error);
        }
        for (RecordChangeEvent<SourceRecord> event : batch) {
            committer.markProcessed(event);
        }
        committer.markBatchFinished();
        sent += batch.size();
        System.out.println("SENT " + sent);
    }
}
