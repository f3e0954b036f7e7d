// Misbehaving servers, implemented with plain sockets. Sending must end and report a reason in every case.
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

/** Answers each line by its first word. */
const answering = (answers: Record<string, string>) => (socket: Socket) => {
  socket.write('220 hello\r\n')
  socket.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split('\r\n')) {
      const answer = answers[line.split(' ')[0]!]
      if (answer !== undefined) socket.write(`${answer}\r\n`)
    }
  })
}
const accepting = {
  EHLO: '250 me',
  MAIL: '250 ok',
  RCPT: '250 ok',
  DATA: '354 go on',
  '.': '250 taken',
  QUIT: '221 bye',
}

test('a mail that the server accepts is no failure', async () => {
  assert.equal(await send(await listen(answering(accepting)), mail), undefined)
})

test('a server that never sends a greeting times out', async () => {
  const failure = await send(await listen(() => {}), mail, undefined, { ...soon, reach: 50 })
  assert.match(failure!.reason, /^the server does not answer in time \(ETIMEDOUT/)
})

test('a server that stops answering times out', async () => {
  const { RCPT: _, ...silent } = accepting
  const failure = await send(await listen(answering(silent)), mail, undefined, { ...soon, silence: 50 })
  assert.match(failure!.reason, /^the server does not answer in time/)
})

test('a server that keeps sending lines of one reply times out', {
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

test('a port without a listener is reported as such', async () => {
  const server = await listen(() => {})
  for (const close of open.splice(-1)) close()
  const failure = await send(server, mail)
  assert.match(failure!.reason, /^127\.0\.0\.1 cannot be reached \(ECONNREFUSED/)
  assert.equal(failure!.isFinal, false)
})

test('a host that does not exist is reported as such', async () => {
  const failure = await send({ ...(await listen(() => {})), host: 'mail.invalid' }, mail)
  assert.match(failure!.reason, /^mail\.invalid has no address \(ENOTFOUND/)
})

test('an abort stops the sending', async () => {
  const stop = new AbortController()
  const server = await listen(() => stop.abort())
  const failure = await send(server, mail, stop.signal)
  assert.equal(failure!.reason, 'the platform is stopping (ESTOPPED)')
  assert.equal((await send(server, mail, stop.signal))!.reason, failure!.reason)
})

test('the text of the server is not repeated, and a rejected recipient is final', async () => {
  const words = '550 5.1.1 no ada@example.test here'
  const failure = await send(await listen(answering({ ...accepting, RCPT: words })), mail)
  assert.deepEqual(failure, {
    kind: 'message',
    reason: 'the server refuses the sender or the recipient (EENVELOPE RCPT TO 550)',
    isFinal: true,
  })
  const later = await send(await listen(answering({ ...accepting, RCPT: '451 later' })), mail)
  assert.equal(later!.isFinal, false)
  const sender = await send(await listen(answering({ ...accepting, MAIL: '550 not you' })), mail)
  assert.equal(sender!.isFinal, false, 'the operator can configure another sender')
})

test('the banner of another protocol is not repeated', async () => {
  const server = await listen(socket => socket.write('SSH-2.0-secret banner\r\n'))
  const failure = await send(server, mail, undefined, { ...soon, silence: 500 })
  assert.equal(failure!.kind, 'unreachable')
  assert.doesNotMatch(JSON.stringify([failure, shownFailure(failure!)]), /banner/)
})

/** Writes as long as the client reads, and counts the sent bytes. */
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
  test(`${what} is cut off after a limited number of bytes`, async () => {
    const { sent, talk } = flooding(chunk, first)
    const failure = await send(await listen(talk), mail)
    // Complete replies may match what each command expects.
    if (first === undefined) assert.equal(failure!.kind, 'unreachable')
    // Includes the buffers of the operating system, which are a few megabytes.
    assert.ok(sent.bytes < 16 * 1024 * 1024, `${sent.bytes} bytes were sent`)
  })

test('a reply that arrives byte by byte ends at the time limit of the delivery', async () => {
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

test('plain text injected after STARTTLS is not treated as a reply under TLS', async () => {
  const { key, cert } = certificateFor('mail.test')
  const received: string[] = []
  const server = await listen(socket => {
    socket.write('220 hello\r\n')
    socket.on('data', function plain(data) {
      if (String(data).startsWith('EHLO')) socket.write('250-me\r\n250 STARTTLS\r\n')
      if (!String(data).startsWith('STARTTLS')) return
      socket.off('data', plain)
      // Taken as the answer to the next EHLO, the injected text would offer a login.
      socket.write('220 go on\r\n250-me\r\n250 AUTH PLAIN LOGIN\r\n')
      const secured = new TLSSocket(socket, { isServer: true, key, cert })
      secured.on('error', () => {})
      secured.write('')
      secured.on('data', each => {
        received.push(String(each))
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
    assert.ok(received.length > 0, 'TLS was used')
    const secret = Buffer.from('\0shop\0secret').toString('base64')
    assert.ok(!received.join('').includes(secret), 'no login was sent to a server that offers none under TLS')
  } finally {
    tls.setDefaultCACertificates(trusted)
  }
})
