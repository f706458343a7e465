// A peer of the live interop tests: @ethereumjs/devp2p as it is, with one capability.
//
//   node peer.js listen             waits for peers on 127.0.0.1
//   node peer.js dial PORT NODE-ID  dials a peer there
//
// It says what happens in JSON, one object a line on the standard output, each with the
// node id of the peer that it is about. It ends with SIGINT, when it says so to its peers, or
// after LIFETIME, should nobody be left to send that.

import { randomBytes } from 'node:crypto'
import { RLPx } from '@ethereumjs/devp2p'
import snappy from 'snappyjs'

const LIFETIME = 15 * 60 * 1000 // ms; far more than a test takes
const TIMEOUT = 3 * 60 * 1000 // ms; for a Pong behind the largest messages on a busy machine. The default is 10 s

// Message ids of the capability.
const ECHO = 0 // comes back as it is
const PING = 1 // makes us send a Ping of the base protocol
const DISCONNECT = 2 // makes us say Disconnect, with the reason that is the first byte
const LENGTH = 3

const MAX_PEERS = 4

setTimeout(() => process.exit(3), LIFETIME).unref()

const hex = (bytes) => Buffer.from(bytes).toString('hex')
const say = (event, peer, more) => {
  const id = peer?.getId?.()
  console.log(JSON.stringify({ event, peer: id ? hex(id) : undefined, ...more }))
}

class Echo {
  constructor(version, peer, send) {
    // The peer has decompressed what comes here; what we send is ours to compress.
    const compresses = peer.getHelloMessage().protocolVersion >= 5
    this._handleMessage = (code, data) => {
      switch (code) {
        case ECHO:
          send(ECHO, compresses ? snappy.compress(data) : data)
          break
        case PING:
          peer._sendPing()
          break
        case DISCONNECT:
          peer.disconnect(data[0])
          break
      }
    }
  }
}

const rlpx = new RLPx(randomBytes(32), {
  maxPeers: MAX_PEERS,
  timeout: TIMEOUT,
  capabilities: [{ name: 'echo', version: 1, length: LENGTH, constructor: Echo }],
})
rlpx.events.on('peer:added', (peer) => {
  const { protocolVersion, clientId, capabilities, port } = peer.getHelloMessage()
  say('added', peer, { version: protocolVersion, name: clientId, capabilities, port })
  const handlePong = peer._handlePong
  let count = 0
  peer._handlePong = function () {
    say('pong', peer, { count: ++count })
    handlePong.call(this)
  }
})
rlpx.events.on('peer:removed', (peer, reason, byUs) => say('removed', peer, { reason, byUs }))
rlpx.events.on('peer:error', (peer, error) => say('error', peer, { message: String(error) }))
rlpx.events.on('error', (error) => {
  say('failed', null, { message: String(error) })
  process.exit(1)
})

process.once('SIGINT', () => {
  rlpx.destroy() // says Disconnect
  setTimeout(() => process.exit(0), 100)
})

const [mode, port, id] = process.argv.slice(2)
switch (mode) {
  case 'listen':
    rlpx.listen(0, '127.0.0.1')
    rlpx.events.once('listening', () => {
      say('listening', null, { port: rlpx._server.address().port, id: hex(rlpx.id) })
    })
    break
  case 'dial':
    rlpx
      .connect({ address: '127.0.0.1', tcpPort: Number(port), id: new Uint8Array(Buffer.from(id, 'hex')) })
      .then(
        () => say('connected', null, { id: hex(rlpx.id) }),
        (error) => say('error', null, { message: String(error) }),
      )
    break
  default:
    console.error('usage: node peer.js listen | dial PORT NODE-ID')
    process.exit(2)
}
