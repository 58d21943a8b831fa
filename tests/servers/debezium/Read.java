import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Kafka Connect reads messages, transforms them and writes them again: `java Read PROPERTIES MESSAGES`.
 *
 * <p>A line of MESSAGES is a message as Messages.java prints one: variant, topic, partition, time, key, value, and the headers. Lines
 * of the same form are printed. JsonConverter reads and writes, with schemas. The transformation is that of the properties
 * `type` and all others; without `type` there's none.
 */
final class Read {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        Properties properties = new Properties();
        try (var file = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(file);
        }
        properties.stringPropertyNames().forEach(name -> options.put(name, properties.getProperty(name)));
        JsonConverter keys = new JsonConverter();
        JsonConverter values = new JsonConverter();
        keys.configure(Map.of("schemas.enable", "true"), true);
        values.configure(Map.of("schemas.enable", "true"), false);
        Transformation<SourceRecord> transformation = transformation(options);
        for (String line : Files.readAllLines(Path.of(arguments[1]))) {
            String[] parts = line.split("\t");
            String topic = parts[1];
            SchemaAndValue key = keys.toConnectData(topic, bytes(parts[4]));
            SchemaAndValue value = values.toConnectData(topic, bytes(parts[5]));
            var headers = new ConnectHeaders();
            for (int at = 6; at < parts.length; at += 2) {
                String name = new String(bytes(parts[at]), StandardCharsets.UTF_8);
                headers.add(name, values.toConnectHeader(topic, name, bytes(parts[at + 1])));
            }
            SourceRecord record = new SourceRecord(
                    Map.of(), Map.of(), topic, null, key.schema(), key.value(), value.schema(), value.value(), null, headers);
            record = transformation == null ? record : transformation.apply(record);
            if (record != null) {
                System.out.println(text(record, keys, values));
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static Transformation<SourceRecord> transformation(Map<String, String> options) throws Exception {
        String type = options.remove("type");
        if (type == null) {
            return null;
        }
        var made = (Transformation<SourceRecord>) Class.forName(type).getDeclaredConstructor().newInstance();
        made.configure(options);
        return made;
    }

    private static String text(SourceRecord record, JsonConverter keys, JsonConverter values) {
        String topic = record.topic();
        StringBuilder line = new StringBuilder("MESSAGE\tread\t").append(topic);
        line.append('\t').append(record.kafkaPartition() == null ? "-" : record.kafkaPartition().toString());
        line.append('\t').append(record.timestamp() == null ? "-" : record.timestamp().toString());
        line.append('\t').append(text(keys.fromConnectData(topic, record.keySchema(), record.key())));
        line.append('\t').append(text(values.fromConnectData(topic, record.valueSchema(), record.value())));
        for (Header header : record.headers()) {
            line.append('\t').append(text(header.key().getBytes(StandardCharsets.UTF_8)));
            line.append('\t').append(text(values.fromConnectHeader(topic, header.key(), header.schema(), header.value())));
        }
        return line.toString();
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    private static String text(byte[] value) {
        return value == null ? "-" : Base64.getEncoder().encodeToString(value);
    }
}
