// Posts bodies of many sizes over kept connections and checks each answer.
const http = require('http');
const port = Number(process.argv[2]);
const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
const SIZES = [0, 1, 100, 1000, 10000, 100000, 700000];
let [right, started] = [0, 0];
const TOTAL = 160;

function next() {
    if (started === TOTAL) return;
    const number = started++;
    const body = Buffer.alloc(SIZES[number % SIZES.length]);
    for (let at = 0; at < body.length; at++) body[at] = (at * 31 + number) & 255;
    const request = http.request({ port, host: '127.0.0.1', method: 'POST', agent,
        headers: { 'Content-Length': body.length } }, (response) => {
        const parts = [];
        response.on('data', (part) => parts.push(part));
        response.on('end', () => {
            if (!Buffer.concat(parts).equals(Buffer.from(body).reverse())) {
                console.log('answer', number, 'is wrong');
                process.exit(1);
            }
            if (++right === TOTAL) {
                console.log(right, 'answers are right');
                agent.destroy();
            }
            next();
        });
    });
    request.on('error', (error) => { console.log('request', number, error); process.exit(1); });
    request.end(body);
}
for (let n = 0; n < 4; n++) next();
