// Servers that do not behave, as bare sockets: whatever they do, sending ends and says why.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, test } from 'node:test'
import tls, { TLSSocket } from 'node:tls'
import { certificateFor } from '../../../test/certificate.ts'
import { createConnector } from './connect.ts'
import { sendMail } from './smtp.ts'
import { shownFailure } from './smtp-failure.ts'
import type { SmtpServer } from './smtp-server.ts'

const open: (() => void)[] = []
after(() => {
  for (const close of open) close()
})

async function listen(talk: (socket: Socket) => void): Promise<SmtpServer> {
  const server = createServer(socket => {
    open.push(() => socket.destroy())
    socket.on('error', () => {})
    talk(socket)
  }).listen(0, '127.0.0.1')
  open.push(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    host: '127.0.0.1',
    port,
    encryption: 'none',
    login: undefined,
    from: { name: '', address: 'shop@example.test' },
  }
}

const mail = { id: 'x', to: 'ada@example.test', subject: 'Hello', html: '<p>Hello', text: 'Hello' }
const soon = { reach: 5000, silence: 5000, whole: 5000 }
const connector = createConnector({ allow: ['127.0.0.1'] })
const send = (...given: Parameters<typeof sendMail> extends [unknown, ...infer Rest] ? Rest : never) =>
  sendMail(connector, ...given)

/** Answers each line it is sent; the words of a session in the order they come. */
const answering = (answers: Record<string, string>) => (socket: Socket) => {
  socket.write('220 hello\r\n')
  socket.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split('\r\n')) {
      const said = answers[line.split(' ')[0]!]
      if (said !== undefined) socket.write(`${said}\r\n`)
    }
  })
}
const polite = {
  EHLO: '250 me',
  MAIL: '250 ok',
  RCPT: '250 ok',
  DATA: '354 go on',
  '.': '250 taken',
  QUIT: '221 bye',
}

test('a server that takes the message is no failure', async () => {
  assert.equal(await send(await listen(answering(polite)), mail), undefined)
})

test('a server that never greets is given up', async () => {
  const failure = await send(await listen(() => {}), mail, undefined, { ...soon, reach: 50 })
  assert.match(failure!.reason, /^the server does not answer in time \(ETIMEDOUT/)
})

test('a server that falls silent is given up', async () => {
  const { RCPT: _, ...silent } = polite
  const failure = await send(await listen(answering(silent)), mail, undefined, { ...soon, silence: 50 })
  assert.match(failure!.reason, /^the server does not answer in time/)
})

test('a server that keeps talking without ever coming to the point is given up', {
  timeout: 30_000,
}, async () => {
  const server = await listen(socket => {
    socket.write('220 hello\r\n')
    const dripping = setInterval(() => socket.write('250-wait\r\n'), 5)
    socket.on('close', () => clearInterval(dripping))
  })
  const failure = await send(server, mail, undefined, { ...soon, whole: 200 })
  assert.match(failure!.reason, /^the server does not answer in time/)
})

test('a port where nothing listens is told as such', async () => {
  const server = await listen(() => {})
  for (const close of open.splice(-1)) close()
  const failure = await send(server, mail)
  assert.match(failure!.reason, /^127\.0\.0\.1 cannot be reached \(ECONNREFUSED/)
  assert.equal(failure!.isFinal, false)
})

test('a host that does not exist is told as such', async () => {
  const failure = await send({ ...(await listen(() => {})), host: 'mail.invalid' }, mail)
  assert.match(failure!.reason, /^mail\.invalid has no address \(ENOTFOUND/)
})

test('told to stop, it stops', async () => {
  const stop = new AbortController()
  const server = await listen(() => stop.abort())
  const failure = await send(server, mail, stop.signal)
  assert.equal(failure!.reason, 'the platform is stopping (ESTOPPED)')
  assert.equal((await send(server, mail, stop.signal))!.reason, failure!.reason)
})

test('what the server says is repeated nowhere, and a refusal of the recipient is final', async () => {
  const words = '550 5.1.1 no ada@example.test here'
  const failure = await send(await listen(answering({ ...polite, RCPT: words })), mail)
  assert.deepEqual(failure, {
    kind: 'message',
    reason: 'the server refuses the sender or the recipient (EENVELOPE RCPT TO 550)',
    isFinal: true,
  })
  const later = await send(await listen(answering({ ...polite, RCPT: '451 later' })), mail)
  assert.equal(later!.isFinal, false)
  const sender = await send(await listen(answering({ ...polite, MAIL: '550 not you' })), mail)
  assert.equal(sender!.isFinal, false, 'the operator can put another sender in')
})

test('what answers but does not speak SMTP is not repeated', async () => {
  const server = await listen(socket => socket.write('SSH-2.0-secret banner\r\n'))
  const failure = await send(server, mail, undefined, { ...soon, silence: 500 })
  assert.equal(failure!.kind, 'unreachable')
  assert.doesNotMatch(JSON.stringify([failure, shownFailure(failure!)]), /banner/)
})

/** Writes for as long as it is read, and counts what has left. */
function flooding(chunk: Buffer, first = '') {
  const sent = { bytes: 0 }
  const talk = (socket: Socket) => {
    socket.write(first)
    const more = () => {
      while (!socket.destroyed && socket.write(chunk)) sent.bytes = socket.bytesWritten
    }
    socket.on('drain', more)
    more()
  }
  return { sent, talk }
}

const floods: Record<string, [Buffer, string?]> = {
  'a greeting without end': [Buffer.alloc(65_536, 'x')],
  'a greeting of endless lines': [Buffer.from('220-wait\r\n'.repeat(8192))],
  'empty lines without end': [Buffer.alloc(65_536, '\n')],
  'a flood of complete replies': [Buffer.from('250 ok\r\n'.repeat(8192)), '220 hello\r\n'],
}
for (const [what, [chunk, first]] of Object.entries(floods))
  test(`${what} is cut off at a bound of bytes`, async () => {
    const { sent, talk } = flooding(chunk, first)
    const failure = await send(await listen(talk), mail)
    // Complete replies may happen to be the ones that each command expects.
    if (first === undefined) assert.equal(failure!.kind, 'unreachable')
    // What lies in buffers of the system, which hold a few megabytes, has left as well.
    assert.ok(sent.bytes < 16 * 1024 * 1024, `${sent.bytes} bytes were taken`)
  })

test('a reply that comes byte by byte ends with the time of the whole delivery', async () => {
  const server = await listen(socket => {
    const bytes = `220 ${'x'.repeat(100_000)}`
    let at = 0
    const dripping = setInterval(() => socket.write(bytes[at++]!), 5)
    socket.on('close', () => clearInterval(dripping))
  })
  const failure = await send(server, mail, undefined, { reach: 60_000, silence: 60_000, whole: 200 })
  assert.deepEqual(
    [failure!.kind, failure!.reason],
    ['unreachable', 'the server does not answer in time (ETIMEDOUT)'],
  )
})

test('what is said in clear after STARTTLS does not count as said under TLS', async () => {
  const { key, cert } = certificateFor('mail.test')
  const heard: string[] = []
  const server = await listen(socket => {
    socket.write('220 hello\r\n')
    socket.on('data', function plain(data) {
      if (String(data).startsWith('EHLO')) socket.write('250-me\r\n250 STARTTLS\r\n')
      if (!String(data).startsWith('STARTTLS')) return
      socket.off('data', plain)
      // The injected answer would offer a login in clear, were it taken for the one to the next EHLO.
      socket.write('220 go on\r\n250-me\r\n250 AUTH PLAIN LOGIN\r\n')
      const secured = new TLSSocket(socket, { isServer: true, key, cert })
      secured.on('error', () => {})
      secured.write('')
      secured.on('data', each => {
        heard.push(String(each))
        secured.write(String(each).startsWith('EHLO') ? '250 me\r\n' : '554 no\r\n')
      })
    })
  })
  const names = createConnector({
    allow: ['127.0.0.1'],
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
  })
  const login = { user: 'shop', password: 'secret' }
  const trusted = tls.getCACertificates('default')
  tls.setDefaultCACertificates([...trusted, cert])
  try {
    const failure = await sendMail(
      names,
      { ...server, host: 'mail.test', encryption: 'starttls', login },
      mail,
      undefined,
      soon,
    )
    assert.notEqual(failure, undefined)
    assert.ok(heard.length > 0, 'TLS was spoken')
    const secret = Buffer.from('\0shop\0secret').toString('base64')
    assert.ok(!heard.join('').includes(secret), 'no login was sent to a server that offers none under TLS')
  } finally {
    tls.setDefaultCACertificates(trusted)
  }
})
