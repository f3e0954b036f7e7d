// Servers that do not behave, as bare sockets: whatever they do, sending ends and says why.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { sendMail } from './smtp.ts'
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
const soon = { connect: 5000, greeting: 5000, silence: 5000, whole: 5000 }

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
  assert.equal(await sendMail(await listen(answering(polite)), mail), undefined)
})

test('a server that never greets is given up', async () => {
  const failure = await sendMail(await listen(() => {}), mail, undefined, { ...soon, greeting: 50 })
  assert.match(failure!.reason, /^the server does not answer in time \(ETIMEDOUT/)
})

test('a server that falls silent is given up', async () => {
  const { RCPT: _, ...silent } = polite
  const failure = await sendMail(await listen(answering(silent)), mail, undefined, { ...soon, silence: 50 })
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
  const failure = await sendMail(server, mail, undefined, { ...soon, whole: 200 })
  assert.match(failure!.reason, /^the server does not answer in time/)
})

test('a port where nothing listens is told as such', async () => {
  const server = await listen(() => {})
  for (const close of open.splice(-1)) close()
  const failure = await sendMail(server, mail)
  assert.match(failure!.reason, /^nothing listens at this host and port \(ECONNREFUSED/)
  assert.equal(failure!.isFinal, false)
})

test('a host that does not exist is told as such', async () => {
  const failure = await sendMail({ ...(await listen(() => {})), host: 'mail.invalid' }, mail)
  assert.match(failure!.reason, /^the host cannot be found/)
})

test('told to stop, it stops', async () => {
  const stop = new AbortController()
  const server = await listen(() => stop.abort())
  const failure = await sendMail(server, mail, stop.signal)
  assert.equal(failure!.reason, 'the platform is stopping (ESTOPPED)')
  assert.equal((await sendMail(server, mail, stop.signal))!.reason, failure!.reason)
})

test('what the server says goes to whoever asked, not to the log, and a refusal of the recipient is final', async () => {
  const words = '550 5.1.1 no ada@example.test here'
  const failure = await sendMail(await listen(answering({ ...polite, RCPT: words })), mail)
  assert.deepEqual(failure, {
    reason: 'the server refuses the sender or the recipient (EENVELOPE RCPT TO 550)',
    told: `the server refuses the sender or the recipient (EENVELOPE RCPT TO 550): ${words}`,
    isFinal: true,
  })
  const later = await sendMail(await listen(answering({ ...polite, RCPT: '451 later' })), mail)
  assert.equal(later!.isFinal, false)
  const sender = await sendMail(await listen(answering({ ...polite, MAIL: '550 not you' })), mail)
  assert.equal(sender!.isFinal, false, 'the operator can put another sender in')
})

test('what answers but does not speak SMTP is not repeated', async () => {
  const server = await listen(socket => socket.write('SSH-2.0-secret banner\r\n'))
  const failure = await sendMail(server, mail, undefined, { ...soon, silence: 500 })
  assert.doesNotMatch(failure!.told, /banner/)
})
