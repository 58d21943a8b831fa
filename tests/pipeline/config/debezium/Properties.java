/** Prints the names of all properties that Debezium's MySQL connector says it has. */
public class Properties {
    public static void main(String[] arguments) {
        new io.debezium.connector.mysql.MySqlConnector().config().names().forEach(System.out::println);
    }
}
