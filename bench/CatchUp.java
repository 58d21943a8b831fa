import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import io.debezium.engine.format.Json;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Debezium's embedded engine catches up with a binlog, and tells how far it is: `java CatchUp.java PROPERTIES ROWS`.
 *
 * <p>Beside the engine's own properties there are `bench.format` (json or connect) and the position to start from,
 * `bench.file`, `bench.offset` and `bench.gtids`. For each batch that the engine hands over there's a line on standard output: how
 * many rows have come, and the nanoseconds since the first batch. It ends once ROWS have come.
 */
final class CatchUp {
    private final long wanted;
    private long came = 0;
    private long begun = 0;

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
        if (properties.getProperty("bench.format").equals("json")) {
            catchUp.run(DebeziumEngine.create(Json.class), properties);
        } else {
            catchUp.run(DebeziumEngine.create(ChangeEventFormat.of(Connect.class)), properties);
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
