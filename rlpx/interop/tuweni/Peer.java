import io.vertx.core.Vertx;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.security.Security;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.tuweni.bytes.Bytes;
import org.apache.tuweni.concurrent.AsyncCompletion;
import org.apache.tuweni.crypto.SECP256K1;
import org.apache.tuweni.rlpx.MemoryWireConnectionsRepository;
import org.apache.tuweni.rlpx.RLPxService;
import org.apache.tuweni.rlpx.vertx.VertxRLPxService;
import org.apache.tuweni.rlpx.wire.DefaultWireConnection;
import org.apache.tuweni.rlpx.wire.DisconnectReason;
import org.apache.tuweni.rlpx.wire.SubProtocol;
import org.apache.tuweni.rlpx.wire.SubProtocolClient;
import org.apache.tuweni.rlpx.wire.SubProtocolHandler;
import org.apache.tuweni.rlpx.wire.SubProtocolIdentifier;
import org.apache.tuweni.rlpx.wire.WireConnection;
import org.bouncycastle.jce.provider.BouncyCastleProvider;

/**
 * A node of Apache Tuweni's RLPx on the loopback interface. Its capabilities echo what they are sent.
 *
 * <p>It does what lines of the standard input say, and says what happens in lines of the standard output, each
 * event with the client name of the peer. It ends with the standard input. Arguments: its own client name.
 */
public final class Peer {
  private static final String LOOPBACK = "127.0.0.1";

  /** Announced in this order, which is not that of the message codes. */
  private static final List<SubProtocol> CAPABILITIES =
      List.of(new Echo("mirror", 2, 300), new Echo("mirror", 1, 1), new Echo("aux", 1, 5));

  /** The message of aux that is answered with a Ping, not with itself; its one byte is said with the Pong. */
  private static final int PING = 4;

  private final RLPxService service;

  /** The last connection whose Hello came. */
  private volatile WireConnection current;

  public static void main(String[] args) throws Exception {
    Security.addProvider(new BouncyCastleProvider()); // Tuweni's curve
    Vertx vertx = Vertx.vertx();
    // What a handler of a socket throws ends here, and the socket stays open.
    vertx.exceptionHandler(e -> say("unhandled %s: %s", e.getClass().getSimpleName(), e.getMessage()));
    SECP256K1.KeyPair key = SECP256K1.KeyPair.random();
    new Peer(vertx, key, args[0]).serve(key);
    System.exit(0);
  }

  private Peer(Vertx vertx, SECP256K1.KeyPair key, String clientName) {
    MemoryWireConnectionsRepository repository = new MemoryWireConnectionsRepository();
    repository.addConnectionListener(connection -> {
      current = connection;
      String shared = connection.agreedSubprotocols().stream() // in the order of message codes
          .map(id -> id.name() + "/" + id.version())
          .collect(Collectors.joining(" "));
      say("connected %s %s", name(connection), shared);
    });
    repository.addDisconnectionListener(connection -> say(
        "disconnected %s %s: %s",
        name(connection),
        connection.isDisconnectReceived() ? "received" : "requested",
        connection.getDisconnectReason().text));
    service = new VertxRLPxService(vertx, 0, LOOPBACK, 0, key, CAPABILITIES, clientName, null, repository);
  }

  private void serve(SECP256K1.KeyPair key) throws Exception {
    service.start().join();
    say("listening %d %s", service.actualPort(), key.publicKey().toHexString());
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = input.readLine()) != null; ) {
      try {
        obey(line.split(" "));
      } catch (Throwable e) {
        say("failed %s: %s", line, e);
      }
    }
  }

  private void obey(String[] words) throws Exception {
    switch (words[0]) {
      case "dial": // port, public key
        service.connectTo(
            SECP256K1.PublicKey.fromHexString(words[2]),
            new InetSocketAddress(LOOPBACK, Integer.parseInt(words[1])));
        break;
      case "send": // message id of mirror/2, size
        service.send(
            SubProtocolIdentifier.of("mirror", 2),
            Integer.parseInt(words[1]),
            current,
            Bytes.wrap(new byte[Integer.parseInt(words[2])]));
        break;
      case "disconnect": // reason
        current.disconnect(DisconnectReason.valueOf(Integer.parseInt(words[1])));
        break;
      default:
        throw new IllegalArgumentException("unknown command");
    }
  }

  private static String name(WireConnection connection) {
    return connection.getPeerHello() == null ? "nobody" : connection.getPeerHello().clientId();
  }

  private static synchronized void say(String format, Object... args) {
    System.out.println(String.format(format, args));
    System.out.flush();
  }

  /** A capability that sends every message back under its id. */
  private static final class Echo implements SubProtocol {
    private final SubProtocolIdentifier id;

    Echo(String name, int version, int length) {
      id = SubProtocolIdentifier.of(name, version, length);
    }

    @Override
    public SubProtocolIdentifier id() {
      return id;
    }

    @Override
    public boolean supports(SubProtocolIdentifier other) {
      return id.equals(other);
    }

    @Override
    public SubProtocolClient createClient(RLPxService service, SubProtocolIdentifier identifier) {
      return new SubProtocolClient() {};
    }

    @Override
    public SubProtocolHandler createHandler(RLPxService service, SubProtocolClient client) {
      return new SubProtocolHandler() {
        @Override
        public AsyncCompletion handle(WireConnection connection, int messageType, Bytes message) {
          if (id.name().equals("aux") && messageType == PING) {
            // Here, in the thread of the connection, the Pong cannot come before sendPing waits for it.
            ((DefaultWireConnection) connection).sendPing()
                .thenRun(() -> say("pong %s %d", name(connection), message.get(0)));
          } else {
            service.send(id, messageType, connection, message);
          }
          return AsyncCompletion.completed();
        }

        @Override
        public AsyncCompletion handleNewPeerConnection(WireConnection connection) {
          return AsyncCompletion.completed();
        }

        @Override
        public AsyncCompletion stop() {
          return AsyncCompletion.completed();
        }
      };
    }
  }
}
