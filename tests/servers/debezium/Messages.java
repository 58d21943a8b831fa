import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.KeyValueHeaderChangeEventFormat;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Debezium's embedded engine prints the messages that it would send to Kafka: `java Messages.java PROPERTIES`.
 *
 * <p>A line is a message: topic, partition (or -), key, value, and then the headers' names and values, with tabs between.
 * All but topic and partition are base64, and `-` stands for null. The program ends after the message whose topic is the
 * property `messages.last`.
 */
final class Messages {
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final String last;

    private Messages(String last) {
        this.last = last;
    }

    public static void main(String[] arguments) throws IOException {
        Properties properties = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(file);
        }
        begin(properties);
        Messages messages = new Messages(properties.getProperty("messages.last"));
        DebeziumEngine.create(KeyValueHeaderChangeEventFormat.of(Json.class, Json.class, Json.class))
                .using(properties)
                .notifying(messages::take)
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

    /** Write the offset to start from, as org.apache.kafka.connect.storage.FileOffsetBackingStore keeps it. */
    private static void begin(Properties properties) throws IOException {
        String key = "[\"%s\",{\"server\":\"%s\"}]"
                .formatted(properties.getProperty("name"), properties.getProperty("topic.prefix"));
        String offset = "{\"file\":\"%s\",\"pos\":%s,\"gtids\":\"%s\"}"
                .formatted(
                        properties.getProperty("messages.file"),
                        properties.getProperty("messages.position"),
                        properties.getProperty("messages.gtids"));
        Map<byte[], byte[]> offsets = new HashMap<>();
        offsets.put(key.getBytes(StandardCharsets.UTF_8), offset.getBytes(StandardCharsets.UTF_8));
        Path store = Path.of(properties.getProperty("offset.storage.file.filename"));
        try (var stream = new ObjectOutputStream(Files.newOutputStream(store))) {
            stream.writeObject(offsets);
        }
    }

    private void take(
            List<ChangeEvent<String, String>> batch, DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer)
            throws InterruptedException {
        for (ChangeEvent<String, String> event : batch) {
            StringBuilder line = new StringBuilder(event.destination());
            line.append('\t').append(event.partition() == null ? "-" : event.partition().toString());
            line.append('\t').append(text(event.key())).append('\t').append(text(event.value()));
            for (Header<?> header : event.headers()) {
                line.append('\t').append(text(header.getKey())).append('\t').append(text((String) header.getValue()));
            }
            out.append("MESSAGE\t").append(line).append('\n');
            committer.markProcessed(event);
            if (event.destination().equals(last)) {
                out.flush();
                Runtime.getRuntime().halt(0);
            }
        }
        committer.markBatchFinished();
        out.flush();
    }

    private static String text(String value) {
        return value == null ? "-" : Base64.getEncoder().encodeToString(value.getBytes(StandardCharsets.UTF_8));
    }
}
