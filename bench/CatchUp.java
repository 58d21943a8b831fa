import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.JsonByteArray;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Debezium's embedded engine catches up with a binlog, and tells how far it is: `java CatchUp.java PROPERTIES ROWS`.
 *
 * <p>Beside the engine's own properties there are `bench.format` (json, connect or topics: JSON into topics of the
 * brokers at `bench.brokers`, by a producer as Kafka Connect sets it up) and the position to start from,
 * `bench.file`, `bench.offset` and `bench.gtids`. For each batch that the engine hands over there's a line on standard output: how
 * many rows have come, and the nanoseconds since the first batch. It ends once ROWS have come.
 */
final class CatchUp {
    private final long wanted;
    private long came = 0;
    private long begun = 0;

    private KafkaProducer<byte[], byte[]> producer = null;

    private CatchUp(long wanted) {
        this.wanted = wanted;
    }

    public static void main(String[] arguments) throws IOException {
        Properties properties = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(file);
        }
        begin(properties);
        CatchUp catchUp = new CatchUp(Long.parseLong(arguments[1]));
        if (properties.getProperty("bench.format").equals("topics")) {
            catchUp.producer = producer(properties.getProperty("bench.brokers"));
            catchUp.run(DebeziumEngine.create(JsonByteArray.class), properties);
        } else if (properties.getProperty("bench.format").equals("json")) {
            catchUp.run(DebeziumEngine.create(Json.class), properties);
        } else {
            catchUp.run(DebeziumEngine.create(ChangeEventFormat.of(Connect.class)), properties);
        }
    }

    /** A producer with what org.apache.kafka.connect.runtime.Worker sets for a source connector's. */
    private static KafkaProducer<byte[], byte[]> producer(String brokers) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", brokers);
        settings.put("max.block.ms", Long.MAX_VALUE);
        settings.put("enable.idempotence", "false");
        settings.put("acks", "all");
        settings.put("max.in.flight.requests.per.connection", 1);
        settings.put("delivery.timeout.ms", Integer.MAX_VALUE);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @SuppressWarnings("unchecked")
    private <E> void send(List<E> batch) {
        for (E event : batch) {
            var change = (ChangeEvent<byte[], byte[]>) event;
            producer.send(new ProducerRecord<>(change.destination(), change.key(), change.value()));
        }
        if (came + batch.size() >= wanted) {
            producer.flush();
        }
    }

    /** Write the offset to start from, as org.apache.kafka.connect.storage.FileOffsetBackingStore keeps it. */
    private static void begin(Properties properties) throws IOException {
        String key = "[\"%s\",{\"server\":\"%s\"}]"
                .formatted(properties.getProperty("name"), properties.getProperty("topic.prefix"));
        String offset = "{\"file\":\"%s\",\"pos\":%s,\"gtids\":\"%s\"}"
                .formatted(
                        properties.getProperty("bench.file"),
                        properties.getProperty("bench.offset"),
                        properties.getProperty("bench.gtids"));
        Map<byte[], byte[]> offsets = new HashMap<>();
        offsets.put(key.getBytes(StandardCharsets.UTF_8), offset.getBytes(StandardCharsets.UTF_8));
        Path store = Path.of(properties.getProperty("offset.storage.file.filename"));
        try (var stream = new ObjectOutputStream(Files.newOutputStream(store))) {
            stream.writeObject(offsets);
        }
    }

    private <E> void run(DebeziumEngine.Builder<E> builder, Properties properties) {
        builder.using(properties)
                .notifying(this::take)
                .using((success, message, error) -> {
                    System.err.println(message);
                    if (error != null) {
                        error.printStackTrace();
                    }
                    Runtime.getRuntime().halt(1);
                })
                .build()
                .run();
    }

    private <E> void take(List<E> batch, DebeziumEngine.RecordCommitter<E> committer) throws InterruptedException {
        if (producer != null) {
            send(batch);
        }
        long now = System.nanoTime();
        if (came == 0) {
            begun = now;
        }
        came += batch.size();
        System.out.println(came + " " + (now - begun));
        if (came >= wanted) {
            System.out.flush();
            Runtime.getRuntime().halt(0);
        }
        for (E event : batch) {
            committer.markProcessed(event);
        }
        committer.markBatchFinished();
    }
}
