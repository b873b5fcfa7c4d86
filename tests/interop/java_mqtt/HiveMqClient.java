import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt5.Mqtt5AsyncClient;
import com.hivemq.client.mqtt.mqtt5.Mqtt5Client;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserProperties;
import com.hivemq.client.mqtt.mqtt5.datatypes.Mqtt5UserPropertiesBuilder;
import com.hivemq.client.mqtt.mqtt5.exceptions.Mqtt5MessageException;
import com.hivemq.client.mqtt.mqtt5.message.Mqtt5Message;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5Connect;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5ConnectBuilder;
import com.hivemq.client.mqtt.mqtt5.message.connect.connack.Mqtt5ConnAck;
import com.hivemq.client.mqtt.mqtt5.message.disconnect.Mqtt5Disconnect;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PayloadFormatIndicator;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5Publish;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PublishBuilder;
import com.hivemq.client.mqtt.mqtt5.message.publish.puback.Mqtt5PubAck;
import com.hivemq.client.mqtt.mqtt5.message.publish.pubrec.Mqtt5PubRec;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.Mqtt5RetainHandling;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.Mqtt5Subscribe;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.Mqtt5Subscription;
import com.hivemq.client.mqtt.mqtt5.message.subscribe.suback.Mqtt5SubAck;
import com.hivemq.client.mqtt.mqtt5.message.unsubscribe.Mqtt5Unsubscribe;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** HiveMQ's client, which uses topic aliases by itself. */
final class HiveMqClient implements Driver.Client {
    private static final long TIMEOUT_S = 15;

    private final Driver.Events events;
    private Mqtt5AsyncClient client;

    HiveMqClient(Driver.Events events) {
        this.events = events;
    }

    @Override
    public boolean connect(Driver.Line asked) throws Exception {
        client =
                Mqtt5Client.builder()
                        .identifier(asked.id)
                        .serverHost("127.0.0.1")
                        .serverPort(asked.port)
                        .addDisconnectedListener(context -> ended(context.getCause()))
                        .buildAsync();
        client.publishes(MqttGlobalPublishFilter.ALL, this::arrived);
        Mqtt5ConnectBuilder connect =
                Mqtt5Connect.builder()
                        .cleanStart(asked.clean)
                        .sessionExpiryInterval(asked.expiry);
        var limits = connect.restrictions();
        if (asked.receiveMaximum != null) limits = limits.receiveMaximum(asked.receiveMaximum);
        if (asked.aliasMaximum != null) limits = limits.topicAliasMaximum(asked.aliasMaximum);
        var complete = limits.applyRestrictions();
        if (asked.will != null) {
            complete =
                    complete.willPublish(
                            publish(asked.will)
                                    .asWill()
                                    .extendAsWill()
                                    .delayInterval(asked.willDelay)
                                    .build());
        }
        return done(client.connect(complete.build())).isSessionPresent();
    }

    private void ended(Throwable cause) {
        Driver.Refused told = refusal(cause);
        events.ended(told == null ? 0 : told.code, told == null ? null : told.reason);
    }

    private static <T> T done(CompletableFuture<T> future) throws Exception {
        try {
            return future.get(TIMEOUT_S, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            Driver.Refused refused = refusal(failed.getCause());
            throw refused == null ? failed : refused;
        }
    }

    private static Driver.Refused refusal(Throwable cause) {
        if (!(cause instanceof Mqtt5MessageException)) return null;
        Mqtt5Message message = ((Mqtt5MessageException) cause).getMqttMessage();
        if (message instanceof Mqtt5ConnAck) {
            Mqtt5ConnAck said = (Mqtt5ConnAck) message;
            return refused(said.getReasonCode().getCode(), said.getReasonString());
        }
        if (message instanceof Mqtt5PubAck) {
            Mqtt5PubAck said = (Mqtt5PubAck) message;
            return refused(said.getReasonCode().getCode(), said.getReasonString());
        }
        if (message instanceof Mqtt5PubRec) {
            Mqtt5PubRec said = (Mqtt5PubRec) message;
            return refused(said.getReasonCode().getCode(), said.getReasonString());
        }
        if (message instanceof Mqtt5SubAck) {
            Mqtt5SubAck said = (Mqtt5SubAck) message;
            return refused(said.getReasonCodes().get(0).getCode(), said.getReasonString());
        }
        if (message instanceof Mqtt5Disconnect) {
            Mqtt5Disconnect said = (Mqtt5Disconnect) message;
            return refused(said.getReasonCode().getCode(), said.getReasonString());
        }
        return null;
    }

    private static Driver.Refused refused(
            int code, java.util.Optional<? extends Object> reason) {
        return new Driver.Refused(code, reason.map(String::valueOf).orElse(null));
    }

    private static Mqtt5Publish publish(Driver.Message message) {
        Driver.Properties given = message.properties;
        Mqtt5UserPropertiesBuilder user = Mqtt5UserProperties.builder();
        for (List<String> pair : given.user) user = user.add(pair.get(0), pair.get(1));
        Mqtt5PublishBuilder.Complete built =
                Mqtt5Publish.builder()
                        .topic(message.topic)
                        .payload(message.bytes())
                        .qos(MqttQos.fromCode(message.qos))
                        .retain(message.retain)
                        .userProperties(user.build())
                        .contentType(given.contentType)
                        .responseTopic(given.responseTopic);
        if (given.correlation != null) built = built.correlationData(given.correlationBytes());
        if (given.expiry != null) built = built.messageExpiryInterval(given.expiry);
        if (given.payloadFormat != null) {
            built =
                    built.payloadFormatIndicator(
                            Mqtt5PayloadFormatIndicator.fromCode(given.payloadFormat));
        }
        return built.build();
    }

    @Override
    public List<String> publish(List<Driver.Message> messages) throws Exception {
        List<String> acknowledged = Collections.synchronizedList(new ArrayList<>());
        List<CompletableFuture<?>> sent = new ArrayList<>();
        for (Driver.Message message : messages) {
            sent.add(
                    client.publish(publish(message))
                            .thenAccept(
                                    result -> {
                                        if (message.qos > 0) acknowledged.add(message.payload);
                                    }));
        }
        for (CompletableFuture<?> one : sent) {
            try {
                done(one);
            } catch (ExecutionException failed) {
                Driver.Refused refused = refusal(failed.getCause().getCause());
                throw refused == null ? failed : refused;
            }
        }
        return acknowledged;
    }

    @Override
    public int subscribe(Driver.Line asked) throws Exception {
        Mqtt5Subscription subscription =
                Mqtt5Subscription.builder()
                        .topicFilter(asked.filter)
                        .qos(MqttQos.fromCode(asked.qos))
                        .noLocal(asked.noLocal)
                        .retainAsPublished(asked.retainAsPublished)
                        .retainHandling(Mqtt5RetainHandling.fromCode(asked.retainHandling))
                        .build();
        Mqtt5Subscribe all = Mqtt5Subscribe.builder().addSubscription(subscription).build();
        return done(client.subscribe(all)).getReasonCodes().get(0).getCode();
    }

    @Override
    public void unsubscribe(String filter) throws Exception {
        done(client.unsubscribe(Mqtt5Unsubscribe.builder().topicFilter(filter).build()));
    }

    @Override
    public void disconnect() throws Exception {
        done(client.disconnect());
    }

    private void arrived(Mqtt5Publish message) {
        Driver.Message told = new Driver.Message();
        told.topic = message.getTopic().toString();
        told.payload = Driver.text(message.getPayloadAsBytes());
        told.qos = message.getQos().getCode();
        told.retain = message.isRetain();
        Driver.Properties properties = told.properties;
        message.getUserProperties()
                .asList()
                .forEach(
                        pair ->
                                properties.user.add(
                                        List.of(
                                                pair.getName().toString(),
                                                pair.getValue().toString())));
        properties.contentType = message.getContentType().map(String::valueOf).orElse(null);
        properties.responseTopic = message.getResponseTopic().map(String::valueOf).orElse(null);
        properties.correlation =
                message.getCorrelationData().map(HiveMqClient::bytes).map(Driver::text).orElse(null);
        properties.payloadFormat =
                message.getPayloadFormatIndicator()
                        .map(Mqtt5PayloadFormatIndicator::getCode)
                        .orElse(null);
        if (message.getMessageExpiryInterval().isPresent()) {
            properties.expiry = message.getMessageExpiryInterval().getAsLong();
        }
        events.message(told);
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }
}
