// An HTTP server that answers each POST with the body it got, reversed: by itself, by the workers of a
// cluster, or by a child that is handed each connection.
const [port, how] = [Number(process.argv[2]), process.argv[3]];
const http = require('http');
const cluster = require('cluster');

function server() {
    return http.createServer((request, response) => {
        const parts = [];
        request.on('data', (part) => parts.push(part));
        request.on('end', () => {
            const body = Buffer.concat(parts).reverse();
            response.writeHead(200, { 'Content-Length': body.length });
            response.end(body);
        });
    });
}

process.on('SIGTERM', () => {
    for (const worker of Object.values(cluster.workers || {})) worker.process.kill('SIGTERM');
    if (global.child) global.child.kill('SIGTERM');
    setTimeout(() => process.exit(0), 300);
});

if (how === 'child') {
    const own = server();
    process.on('message', (_message, socket) => own.emit('connection', socket));
} else if (how === 'handed') {
    global.child = require('child_process').fork(__filename, [String(port), 'child']);
    const net = require('net').createServer({ pauseOnConnect: true }, (socket) => {
        global.child.send('connection', socket);
    });
    net.listen(port, '127.0.0.1');
} else if (how === 'cluster' && cluster.isPrimary) {
    cluster.fork();
    cluster.fork();
} else {
    server().listen(port, '127.0.0.1');
}
