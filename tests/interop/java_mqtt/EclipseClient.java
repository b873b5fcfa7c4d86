import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.eclipse.paho.mqttv5.client.IMqttToken;
import org.eclipse.paho.mqttv5.client.MqttActionListener;
import org.eclipse.paho.mqttv5.client.MqttAsyncClient;
import org.eclipse.paho.mqttv5.client.MqttCallback;
import org.eclipse.paho.mqttv5.client.MqttConnectionOptions;
import org.eclipse.paho.mqttv5.client.MqttDisconnectResponse;
import org.eclipse.paho.mqttv5.client.persist.MemoryPersistence;
import org.eclipse.paho.mqttv5.common.MqttException;
import org.eclipse.paho.mqttv5.common.MqttMessage;
import org.eclipse.paho.mqttv5.common.MqttSubscription;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;
import org.eclipse.paho.mqttv5.common.packet.UserProperty;

/** Eclipse Paho's client of MQTT 5. */
final class EclipseClient implements Driver.Client, MqttCallback {
    private static final int FAILED = 0x80;
    private static final int CLIENT_FAULTS = 0x100; // codes of the library's own begin beyond bytes
    private static final long TIMEOUT_MS = 15_000;

    private final Driver.Events events;
    private MqttAsyncClient client;

    EclipseClient(Driver.Events events) {
        this.events = events;
    }

    @Override
    public boolean connect(Driver.Line asked) throws Exception {
        client =
                new MqttAsyncClient(
                        "tcp://127.0.0.1:" + asked.port, asked.id, new MemoryPersistence());
        client.setCallback(this);
        MqttConnectionOptions options = new MqttConnectionOptions();
        options.setCleanStart(asked.clean);
        options.setSessionExpiryInterval(asked.expiry);
        options.setUseSubscriptionIdentifiers(false);
        if (asked.receiveMaximum != null) options.setReceiveMaximum(asked.receiveMaximum);
        if (asked.aliasMaximum != null) options.setTopicAliasMaximum(asked.aliasMaximum);
        if (asked.will != null) {
            MqttMessage will = message(asked.will);
            options.setWill(asked.will.topic, will);
            will.getProperties().setWillDelayInterval(asked.willDelay);
            options.setWillMessageProperties(will.getProperties());
        }
        return done(client.connect(options)).getSessionPresent();
    }

    private static IMqttToken done(IMqttToken token) throws Exception {
        try {
            token.waitForCompletion(TIMEOUT_MS);
        } catch (MqttException refused) {
            if (refused.getReasonCode() < FAILED || refused.getReasonCode() >= CLIENT_FAULTS) {
                throw refused;
            }
            throw new Driver.Refused(refused.getReasonCode(), reason(token));
        }
        int[] codes = token.getReasonCodes();
        if (codes != null && codes.length > 0 && codes[0] >= FAILED) {
            throw new Driver.Refused(codes[0], reason(token));
        }
        return token;
    }

    private static String reason(IMqttToken token) {
        MqttProperties said = token.getResponseProperties();
        return said == null ? null : said.getReasonString();
    }

    private static MqttMessage message(Driver.Message message) {
        MqttProperties properties = new MqttProperties();
        Driver.Properties given = message.properties;
        List<UserProperty> user = new ArrayList<>();
        given.user.forEach(pair -> user.add(new UserProperty(pair.get(0), pair.get(1))));
        properties.setUserProperties(user);
        properties.setContentType(given.contentType);
        properties.setResponseTopic(given.responseTopic);
        if (given.correlation != null) properties.setCorrelationData(given.correlationBytes());
        if (given.payloadFormat != null) properties.setPayloadFormat(given.payloadFormat == 1);
        properties.setMessageExpiryInterval(given.expiry);
        return new MqttMessage(message.bytes(), message.qos, message.retain, properties);
    }

    @Override
    public List<String> publish(List<Driver.Message> messages) throws Exception {
        List<String> acknowledged = Collections.synchronizedList(new ArrayList<>());
        List<IMqttToken> tokens = new ArrayList<>();
        CountDownLatch told = new CountDownLatch(messages.size()); // tokens are done before it
        for (Driver.Message sent : messages) {
            MqttActionListener listener =
                    new MqttActionListener() {
                        @Override
                        public void onSuccess(IMqttToken token) {
                            if (sent.qos > 0) acknowledged.add(sent.payload);
                            told.countDown();
                        }

                        @Override
                        public void onFailure(IMqttToken token, Throwable cause) {
                            told.countDown();
                        }
                    };
            tokens.add(client.publish(sent.topic, message(sent), null, listener));
        }
        for (IMqttToken token : tokens) done(token);
        told.await();
        return acknowledged;
    }

    @Override
    public int subscribe(Driver.Line asked) throws Exception {
        MqttSubscription subscription = new MqttSubscription(asked.filter, asked.qos);
        subscription.setNoLocal(asked.noLocal);
        subscription.setRetainAsPublished(asked.retainAsPublished);
        subscription.setRetainHandling(asked.retainHandling);
        MqttProperties properties = new MqttProperties();
        if (asked.identifier != null) properties.setSubscriptionIdentifier(asked.identifier);
        MqttSubscription[] all = {subscription};
        return done(client.subscribe(all, null, null, properties)).getReasonCodes()[0];
    }

    @Override
    public void unsubscribe(String filter) throws Exception {
        done(client.unsubscribe(filter));
    }

    @Override
    public void disconnect() throws Exception {
        client.disconnect(0).waitForCompletion(TIMEOUT_MS);
        client.close();
    }

    @Override
    public void messageArrived(String topic, MqttMessage message) {
        Driver.Message told = new Driver.Message();
        told.topic = topic;
        told.payload = Driver.text(message.getPayload());
        told.qos = message.getQos();
        told.retain = message.isRetained();
        MqttProperties got = message.getProperties();
        got.getUserProperties()
                .forEach(pair -> told.properties.user.add(List.of(pair.getKey(), pair.getValue())));
        told.properties.contentType = got.getContentType();
        told.properties.responseTopic = got.getResponseTopic();
        if (got.getCorrelationData() != null) {
            told.properties.correlation = Driver.text(got.getCorrelationData());
        }
        told.properties.payloadFormat = got.getPayloadFormat() ? 1 : null;
        told.properties.expiry = got.getMessageExpiryInterval();
        told.properties.identifiers.addAll(got.getSubscriptionIdentifiers());
        events.message(told);
    }

    @Override
    public void disconnected(MqttDisconnectResponse response) {
        events.ended(response.getReturnCode(), response.getReasonString());
    }

    @Override
    public void mqttErrorOccurred(MqttException exception) {}

    @Override
    public void deliveryComplete(IMqttToken token) {}

    @Override
    public void connectComplete(boolean reconnect, String address) {}

    @Override
    public void authPacketArrived(int code, MqttProperties properties) {}
}
