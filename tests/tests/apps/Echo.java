import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/** An echo server with blocking sockets or a selector, and a client that checks what comes back. */
final class Echo {
    private static final InetAddress HOST = InetAddress.getLoopbackAddress();

    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[1]);
        switch (words[0]) {
            case "nio" -> selected(port);
            case "blocking" -> blocking(port);
            default -> client(port);
        }
    }

    private static void blocking(int port) throws IOException {
        ServerSocket listener = new ServerSocket(port, 50, HOST);
        while (true) {
            Socket socket = listener.accept();
            new Thread(() -> {
                byte[] room = new byte[16384];
                try (socket) {
                    for (int n; (n = socket.getInputStream().read(room)) > 0; ) {
                        socket.getOutputStream().write(room, 0, n);
                    }
                } catch (IOException gone) {
                    // The client is: nothing is left to answer.
                }
            }).start();
        }
    }

    private static void selected(int port) throws IOException {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress(HOST, port)).configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (true) {
            selector.select();
            for (var keys = selector.selectedKeys().iterator(); keys.hasNext(); keys.remove()) {
                SelectionKey key = keys.next();
                if (key.isAcceptable()) {
                    SocketChannel channel = listener.accept();
                    channel.configureBlocking(false);
                    channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(16384));
                    continue;
                }
                SocketChannel channel = (SocketChannel) key.channel();
                ByteBuffer room = (ByteBuffer) key.attachment();
                if (key.isReadable() && channel.read(room) < 0) {
                    channel.close();
                    continue;
                }
                room.flip();
                channel.write(room);
                key.interestOps(SelectionKey.OP_READ | (room.hasRemaining() ? SelectionKey.OP_WRITE : 0));
                room.compact();
            }
        }
    }

    private static void client(int port) throws Exception {
        Thread[] threads = new Thread[3];
        int[] right = new int[threads.length];
        for (int t = 0; t < threads.length; t++) {
            int own = t;
            threads[t] = new Thread(() -> {
                try (Socket socket = new Socket(HOST, port)) {
                    DataInputStream in = new DataInputStream(socket.getInputStream());
                    for (int turn = 0; turn < 60; turn++) {
                        byte[] body = new byte[1 + turn * 517 % 12000];
                        for (int at = 0; at < body.length; at++) body[at] = (byte) (at * 31 + turn + own);
                        socket.getOutputStream().write(body);
                        byte[] back = new byte[body.length];
                        in.readFully(back);
                        if (java.util.Arrays.equals(body, back)) right[own]++;
                    }
                } catch (IOException error) {
                    System.out.println("thread " + own + ": " + error);
                }
            });
            threads[t].start();
        }
        int sum = 0;
        for (int t = 0; t < threads.length; t++) {
            threads[t].join();
            sum += right[t];
        }
        // A reader that another thread's close wakes up.
        Socket socket = new Socket(HOST, port);
        for (int turn = 0; turn < 20; turn++) {
            socket.getOutputStream().write(turn);
            socket.getInputStream().read();
        }
        String[] told = new String[1];
        Thread reader = new Thread(() -> {
            try {
                told[0] = "read " + socket.getInputStream().read();
            } catch (SocketException closed) {
                told[0] = "closed";
            } catch (IOException error) {
                told[0] = error.toString();
            }
        });
        reader.start();
        Thread.sleep(300);
        socket.close();
        reader.join();
        System.out.println(sum + " answers are right, the reader was " + told[0]);
    }
}
