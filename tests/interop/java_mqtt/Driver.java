import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Function;

/**
 * Does what lines of JSON on its input ask, and answers in lines of JSON: see
 * tests/interop/driven_clients.py. {@code java Driver hivemq} or {@code java Driver paho}.
 */
public final class Driver {
    private static final Gson JSON = new GsonBuilder().serializeNulls().create();
    private static final PrintStream OUT =
            new PrintStream(System.out, true, StandardCharsets.UTF_8);

    /** A request; its fields are those that it needs. */
    static final class Line {
        long call;
        String client;
        @com.google.gson.annotations.SerializedName("do")
        String action;
        int port;
        String id;
        boolean clean;
        long expiry;
        Message will;
        long willDelay;
        Integer receiveMaximum;
        Integer aliasMaximum;
        List<Message> messages;
        String filter;
        int qos;
        boolean noLocal;
        boolean retainAsPublished;
        int retainHandling;
        Integer identifier;
    }

    static final class Message {
        String topic;
        String payload;
        int qos;
        boolean retain;
        Properties properties = new Properties();

        byte[] bytes() {
            return Base64.getDecoder().decode(payload);
        }
    }

    static final class Properties {
        List<List<String>> user = new ArrayList<>();
        String contentType;
        String responseTopic;
        String correlation;
        Integer payloadFormat;
        Long expiry;
        List<Integer> identifiers = new ArrayList<>();

        byte[] correlationBytes() {
            return Base64.getDecoder().decode(correlation);
        }
    }

    /** The broker said no. */
    static final class Refused extends Exception {
        final int code;
        final String reason;

        Refused(int code, String reason) {
            this.code = code;
            this.reason = reason;
        }
    }

    /** One connection through a library. */
    interface Client {
        boolean connect(Line asked) throws Exception;

        /** Returns the payloads in the order of their acknowledgements. */
        List<String> publish(List<Message> messages) throws Exception;

        int subscribe(Line asked) throws Exception;

        void unsubscribe(String filter) throws Exception;

        void disconnect() throws Exception;
    }

    /** What a client tells unasked. */
    static final class Events {
        private final String client;

        Events(String client) {
            this.client = client;
        }

        void message(Message message) {
            say(Map.of("client", client, "message", message));
        }

        void ended(int code, String reason) {
            say(Map.of("client", client, "ended", refusal(code, reason)));
        }
    }

    static String text(byte[] data) {
        return Base64.getEncoder().encodeToString(data);
    }

    private static Map<String, Object> refusal(int code, String reason) {
        Map<String, Object> told = new HashMap<>();
        told.put("code", code);
        told.put("reason", reason);
        return told;
    }

    private static synchronized void say(Object line) {
        OUT.println(JSON.toJson(line));
    }

    private static Map<String, Object> answer(Client client, Line asked) throws Exception {
        switch (asked.action) {
            case "connect":
                return Map.of("sessionPresent", client.connect(asked));
            case "publish":
                return Map.of("acknowledged", client.publish(asked.messages));
            case "subscribe":
                return Map.of("granted", client.subscribe(asked));
            case "unsubscribe":
                client.unsubscribe(asked.filter);
                return Map.of();
            default:
                client.disconnect();
                return Map.of();
        }
    }

    private static void serve(Client client, Line asked) {
        Map<String, Object> said = new HashMap<>();
        said.put("call", asked.call);
        try {
            said.putAll(answer(client, asked));
        } catch (Refused refused) {
            said.putAll(refusal(refused.code, refused.reason));
        } catch (Exception | AssertionError failed) {
            said.put("error", String.valueOf(failed));
        }
        say(said);
    }

    public static void main(String[] arguments) throws Exception {
        Function<Events, Client> library =
                arguments[0].equals("hivemq") ? HiveMqClient::new : EclipseClient::new;
        Map<String, Client> clients = new ConcurrentHashMap<>();
        ExecutorService threads = Executors.newCachedThreadPool();
        InputStreamReader input = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(input);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Line asked = JSON.fromJson(line, Line.class);
            Client client =
                    clients.computeIfAbsent(asked.client, name -> library.apply(new Events(name)));
            threads.execute(() -> serve(client, asked));
        }
        System.exit(0);
    }
}
