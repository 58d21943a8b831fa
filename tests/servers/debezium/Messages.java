import io.confluent.connect.avro.AvroConverter;
import io.confluent.kafka.schemaregistry.client.MockSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Debezium's embedded engine prints the messages that it would send to Kafka: `java Messages PROPERTIES`.
 *
 * <p>A line is a message: variant, topic, partition (or -), time (or -), key, value, and then the headers' names and values, with tabs
 * between. All but variant, topic, partition and time are base64, and `-` stands for null. The program ends after the message
 * whose topic is the property `messages.last`.
 *
 * <p>It begins at the place that `messages.file`, `messages.position` and `messages.gtids` say; without them it begins as the
 * properties of the connector say.
 *
 * <p>The property `messages.variants` names what is made of each of the connector's records: variant v by the
 * transformations that the properties `v.transforms` and `v.transforms.*` say, as Kafka Connect does it, and then by
 * JsonConverter. The last message is not transformed.
 *
 * <p>With {@code v.converter=avro} keys and values are those of Confluent's AvroConverter, each as its schema's text, a
 * newline, and in base64 what follows the schema's id.
 *
 * <p>With {@code v.headers=simple} headers are those of SimpleHeaderConverter. With {@code v.nulls=kept} JsonConverter keeps
 * a null of a column that has a default.
 */
final class Messages {
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final String last;
    private final List<Variant> variants = new ArrayList<>();

    private Messages(Properties properties) throws ReflectiveOperationException {
        last = properties.getProperty("messages.last");
        for (String name : properties.getProperty("messages.variants").split(",")) {
            variants.add(new Variant(name, properties));
        }
    }

    /** What is made of the connector's records, and how it is written. */
    private static final class Variant {
        private final String name;
        private final List<Transformation<SourceRecord>> transformations = new ArrayList<>();
        private final HeaderConverter headers;
        private final Converter keys;
        private final Converter values;
        private final SchemaRegistryClient schemas;

        @SuppressWarnings("unchecked")
        Variant(String name, Properties properties) throws ReflectiveOperationException {
            this.name = name;
            String enable = properties.getProperty("converter.schemas.enable", "false");
            boolean avro = properties.getProperty(name + ".converter", "json").equals("avro");
            schemas = avro ? new MockSchemaRegistryClient() : null;
            keys = avro ? new AvroConverter(schemas) : new JsonConverter();
            values = avro ? new AvroConverter(schemas) : new JsonConverter();
            Map<String, String> options = new HashMap<>(Map.of("schemas.enable", enable, "schema.registry.url", "none"));
            if (properties.getProperty(name + ".nulls", "default").equals("kept")) {
                options.put("replace.null.with.default", "false");
            }
            boolean simple = properties.getProperty(name + ".headers", "json").equals("simple");
            headers = simple ? new SimpleHeaderConverter() : new JsonConverter();
            Map<String, String> ofHeaders = new HashMap<>(options);
            ofHeaders.put("converter.type", "header");
            headers.configure(ofHeaders);
            keys.configure(options, true);
            values.configure(options, false);
            for (String each : properties.getProperty(name + ".transforms", "").split(",")) {
                if (!each.isEmpty()) {
                    String prefix = name + ".transforms." + each + ".";
                    Map<String, String> said = new HashMap<>();
                    for (String key : properties.stringPropertyNames()) {
                        if (key.startsWith(prefix)) {
                            said.put(key.substring(prefix.length()), properties.getProperty(key));
                        }
                    }
                    var made = (Transformation<SourceRecord>)
                            Class.forName(said.remove("type")).getDeclaredConstructor().newInstance();
                    made.configure(said);
                    transformations.add(made);
                }
            }
        }

        /** The line of a record, null where it is dropped. */
        String line(SourceRecord whole, boolean plain) {
            // Transformations add to a record's headers, and all variants begin with the same record.
            SourceRecord record = whole.newRecord(
                    whole.topic(), whole.kafkaPartition(), whole.keySchema(), whole.key(), whole.valueSchema(),
                    whole.value(), whole.timestamp(), whole.headers().duplicate());
            for (Transformation<SourceRecord> each : transformations) {
                record = record == null || plain ? record : each.apply(record);
            }
            if (record == null) {
                return null;
            }
            String topic = record.topic();
            StringBuilder line = new StringBuilder("MESSAGE\t").append(name).append('\t').append(topic);
            line.append('\t').append(record.kafkaPartition() == null ? "-" : record.kafkaPartition().toString());
            line.append('\t').append(record.timestamp() == null ? "-" : record.timestamp().toString());
            line.append('\t').append(text(made(keys, topic, record.keySchema(), record.key())));
            line.append('\t').append(text(made(values, topic, record.valueSchema(), record.value())));
            for (Header header : record.headers()) {
                byte[] value = headers.fromConnectHeader(topic, header.key(), header.schema(), header.value());
                line.append('\t').append(text(header.key().getBytes(StandardCharsets.UTF_8)));
                line.append('\t').append(text(value));
            }
            return line.toString();
        }

        private byte[] made(Converter converter, String topic, Schema schema, Object value) {
            byte[] message = converter.fromConnectData(topic, schema, value);
            if (message == null || schemas == null) {
                return message;
            }
            try {
                String text = schemas.getSchemaById(ByteBuffer.wrap(message).getInt(1)).canonicalString();
                byte[] rest = Arrays.copyOfRange(message, 5, message.length);
                return (text + '\n' + Base64.getEncoder().encodeToString(rest)).getBytes(StandardCharsets.UTF_8);
            } catch (IOException | RestClientException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        Properties properties = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(file);
        }
        if (properties.containsKey("messages.file")) {
            begin(properties);
        }
        Messages messages = new Messages(properties);
        DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
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
            List<RecordChangeEvent<SourceRecord>> batch,
            DebeziumEngine.RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
            throws InterruptedException {
        for (RecordChangeEvent<SourceRecord> event : batch) {
            for (Variant variant : variants) {
                String line = variant.line(event.record(), event.record().topic().equals(last));
                if (line != null) {
                    out.append(line).append('\n');
                }
            }
            committer.markProcessed(event);
            if (event.record().topic().equals(last)) {
                out.flush();
                Runtime.getRuntime().halt(0);
            }
        }
        committer.markBatchFinished();
        out.flush();
    }

    private static String text(byte[] value) {
        return value == null ? "-" : Base64.getEncoder().encodeToString(value);
    }
}
