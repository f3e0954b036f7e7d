// Retries of the mail queue: servers that refuse or hang, a database outage, nodes that die.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { enqueueMail } from './mail/enqueue.ts'
import { allowsLocalMail, answer, closedPort, type MailServer, startMailServer } from './mail/server.ts'

let platform: TestPlatform
const undo: (() => unknown)[] = []
before(async () => {
  platform = await startPlatform({ settings: allowsLocalMail })
})
after(async () => {
  await platform.stop()
  for (const step of undo) await step()
})

async function serve(options: Parameters<typeof startMailServer>[0] = {}): Promise<MailServer> {
  const server = await startMailServer(options)
  undo.push(() => server.close())
  return server
}

const secret = { user: 'mailer', password: 'pass phrase of its own' }
const setSmtp = (id: string, port: number, more = {}, on = platform) =>
  on.call('PUT', `/api/v1/projects/${id}/email/smtp`, {
    token: on.adminToken,
    body: { host: '127.0.0.1', port, from_email: 'shop@example.test', ...more },
  })
async function projectAt(port: number, more = {}): Promise<string> {
  const { id } = await platform.createProject()
  assert.equal((await setSmtp(id, port, more)).status, 200)
  return id
}

const values = {
  user_name: 'Ada',
  action_url: 'https://app.test/c0de',
  expires_in: '1 hour',
  token: '246810',
}
async function enqueue(id: string, to: string, on = platform): Promise<void> {
  await enqueueMail(on, id, { to, template: 'magic_link', values })
}

interface Queued {
  id: string
  attempts: number
  is_leased: boolean
}
const inQueue = (id: string) => sql`
  select id, attempts, leased_until > now() as is_leased
    from public.mail_queue where project_id = ${id} order by created_at`
const queued = (id: string) => platform.app.control.rows<Queued>(inQueue(id))
const isEmpty = (id: string) => eventually(async () => (await queued(id)).length === 0, 'an empty queue')
const isPutOff = ({ attempts, is_leased }: Queued) => attempts === 1 && !is_leased
const recipients = ({ received }: MailServer) => received.flatMap(({ to }) => to)
const entriesOf = (id: string) =>
  platform.logged.map(line => JSON.parse(line)).filter(entry => entry.project === id && entry.mail)

/** Accepts connections and sends nothing. */
async function mute(): Promise<{ port: number; sockets: Socket[] }> {
  const sockets: Socket[] = []
  const server = createServer(socket => sockets.push(socket.on('error', () => {}))).listen(0, '127.0.0.1')
  await once(server, 'listening')
  undo.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, sockets }
}

test('mail queue: a mail that is refused once is retried and delivered', async () => {
  let isAsleep = true
  const server = await serve({
    onRecipient() {
      if (!isAsleep) return
      isAsleep = false
      throw answer(451, '4.7.1 come again')
    },
  })
  const id = await projectAt(server.port)
  await enqueue(id, 'ada@example.test')
  await isEmpty(id)
  assert.deepEqual(recipients(server), ['ada@example.test'])
  const [entry, ...more] = entriesOf(id).filter(({ level }) => level === 'warn')
  assert.deepEqual(more, [])
  assert.deepEqual(
    [entry.msg, entry.attempt, entry.againInSeconds, entry.reason],
    [
      'a mail could not be sent; trying again',
      1,
      2,
      'the server refuses the sender or the recipient (EENVELOPE RCPT TO 451)',
    ],
  )
})

test('mail queue: retries back off, and the tenth attempt is the last', async () => {
  const id = await projectAt(closedPort)
  await enqueue(id, 'ada@example.test')
  const waits: number[] = []
  for (let attempt = 1; attempt < 10; attempt++) {
    await eventually(async () => {
      const [mail] = await queued(id)
      return mail!.attempts === attempt && !mail!.is_leased
    }, `attempt ${attempt}`)
    waits.push(entriesOf(id).at(-1).againInSeconds)
    await platform.app.control.run(sql`update mail_queue set due_at = now() where project_id = ${id}`)
    platform.app.directory.forget(id)
  }
  await isEmpty(id)
  assert.deepEqual(waits, [2, 10, 60, 300, 900, 3600, 10_800, 21_600, 43_200])
  const last = entriesOf(id).at(-1)
  assert.deepEqual(
    [last.level, last.msg, last.attempt],
    ['error', 'a mail could not be sent and is given up', 10],
  )
})

test('mail queue: a permanent rejection ends after three attempts', async () => {
  let attempts = 0
  const server = await serve({
    onRecipient() {
      attempts++
      throw answer(550, '5.1.1 no such user')
    },
  })
  const id = await projectAt(server.port)
  await enqueue(id, 'nobody@example.test')
  await eventually(async () => {
    await platform.app.control.run(
      sql`update mail_queue set due_at = now() where project_id = ${id} and leased_until <= now()`,
    )
    platform.app.directory.forget(id)
    return (await queued(id)).length === 0
  }, 'the end')
  assert.equal(attempts, 3)
})

test('mail queue: new SMTP settings trigger an immediate retry', async () => {
  const server = await serve({ login: secret })
  const id = await projectAt(server.port, { username: secret.user, password: 'wrong' })
  await enqueue(id, 'ada@example.test')
  await eventually(async () => (await queued(id)).some(isPutOff), 'a failed login')
  await platform.app.control.run(
    sql`update mail_queue set due_at = now() + interval '12 hours' where project_id = ${id}`,
  )
  await setSmtp(id, server.port, { username: secret.user, password: secret.password })
  await isEmpty(id)
  assert.deepEqual(recipients(server), ['ada@example.test'])
})

test('mail queue: the log has project and reason, but no address, content or password', async () => {
  const server = await serve({ login: secret })
  const id = await projectAt(server.port, { username: secret.user, password: 'wrong horse staple' })
  await enqueue(id, 'private.person@example.test')
  await eventually(() => entriesOf(id).length > 0, 'a line in the log')
  assert.match(entriesOf(id)[0].reason, /^the server refuses the user name or password \(EAUTH .*535\)$/)
  const log = platform.logged.join('')
  for (const word of ['private.person', 'c0de', '246810', 'wrong horse', secret.password, 'does not get in'])
    assert.ok(!log.includes(word), word)
})

test('mail queue: a hanging server delays neither the request nor the mail of other projects', async () => {
  const { port, sockets } = await mute()
  const [hanging, server] = [await projectAt(port), await serve()]
  const other = await projectAt(server.port)
  for (let at = 0; at < 20; at++) await enqueue(hanging, `stuck${at}@example.test`)
  await eventually(() => sockets.length > 0, 'a connection')
  await enqueue(other, 'ada@example.test')
  await isEmpty(other)
  assert.deepEqual(recipients(server), ['ada@example.test'])
  const waiting = await queued(hanging)
  assert.equal(waiting.length, 20)
  assert.ok(waiting.filter(mail => mail.is_leased).length <= 2, 'no more than two at once for one project')
  await platform.app.control.run(sql`delete from mail_queue where project_id = ${hanging}`)
})

test('mail queue: servers with very slow replies do not delay the mail of other projects', async () => {
  const sockets: Socket[] = []
  const dripping = createServer(socket => {
    sockets.push(socket.on('error', () => {}))
    socket.write('220 hello\r\n')
    const drip = setInterval(() => socket.write('250-wait\r\n'), 1000)
    socket.on('close', () => clearInterval(drip))
  }).listen(0, '127.0.0.1')
  await once(dripping, 'listening')
  undo.push(() => {
    for (const socket of sockets) socket.destroy()
    dripping.close()
  })
  const server = await serve()
  const crowded = await startPlatform({ settings: allowsLocalMail })
  try {
    const { port } = dripping.address() as AddressInfo
    const create = async (at: number) => {
      const { id } = await crowded.createProject()
      assert.equal((await setSmtp(id, at, {}, crowded)).status, 200)
      return id
    }
    const slow: string[] = []
    for (let at = 0; at < 25; at++) slow.push(await create(port))
    const other = await create(server.port)
    const mails = slow.flatMap(id => ['a', 'b'].map(to => enqueue(id, `${to}@example.test`, crowded)))
    await Promise.all(mails)
    const leased = async () => {
      const taken = sql`select from mail_queue where leased_until > now() and project_id = any(${slow}::uuid[])`
      return (await crowded.app.control.rows(taken)).length
    }
    await eventually(async () => (await leased()) === 50, 'as many deliveries as may run at once')
    await enqueue(other, 'ada@example.test', crowded)
    await eventually(() => recipients(server).includes('ada@example.test'), 'the mail of another project')
    assert.equal(await leased(), 50, 'the slow deliveries are still under way')
  } finally {
    await crowded.stop()
  }
})

test('mail queue: shutdown releases unsent mails, and the next process sends them', async () => {
  const { port, sockets } = await mute()
  const first = await startPlatform({ settings: allowsLocalMail })
  const { id } = await first.createProject()
  await setSmtp(id, port, {}, first)
  await enqueue(id, 'ada@example.test', first)
  await eventually(() => sockets.length === 1, 'a connection')
  await first.app.close()
  const look = () => first.asSuperuser(first.control, session => session.rows<Queued>(inQueue(id)))
  const [mail] = await look()
  assert.deepEqual([mail!.attempts, mail!.is_leased], [0, false])

  const server = await serve()
  const better = sql`
    update public.projects set settings = jsonb_set(settings, '{smtp,port}', to_jsonb(${server.port}::int))
     where id = ${id}`
  await first.asSuperuser(first.control, session => session.run(better))
  const second = await startPlatform({ beside: first })
  try {
    await eventually(async () => (await look()).length === 0, 'an empty queue')
    assert.deepEqual(recipients(server), ['ada@example.test'])
  } finally {
    await second.stop()
  }
})

test('mail queue: a mail of a killed node is sent again when its lease expires', async () => {
  const held = Promise.withResolvers<void>()
  let isHolding = true
  let hasArrived = false
  const server = await serve({
    onMessage() {
      hasArrived = true
      return isHolding ? held.promise : undefined
    },
  })
  const id = await projectAt(server.port)
  const { control, adminToken, controlPlaneSecret, config } = platform
  const beside = {
    control,
    adminToken,
    controlPlaneSecret,
    config: { dataDir: config.dataDir, outboundAllow: config.outboundAllow },
  }
  const given = JSON.stringify({ beside, projectId: id, to: 'ada@example.test' })
  const node = spawn(process.execPath, [join(import.meta.dirname, 'mail/node.ts'), given], {
    stdio: 'inherit',
  })
  undo.push(() => node.kill('SIGKILL'))
  const ended = once(node, 'exit')
  await eventually(() => hasArrived || node.exitCode !== null, 'a mail under way')
  node.kill('SIGKILL')
  await ended
  isHolding = false
  held.resolve()

  const [mail] = await queued(id)
  assert.deepEqual([mail!.attempts, mail!.is_leased], [1, true])
  const before = recipients(server).length
  await enqueue(id, 'bob@example.test')
  await eventually(() => recipients(server).includes('bob@example.test'), 'a mail that is free')
  await eventually(async () => (await queued(id)).length === 1, 'its end')
  assert.deepEqual(await queued(id), [mail], 'the other mail is not claimed before its lease expires')
  assert.equal(recipients(server).filter(to => to === 'ada@example.test').length, before)

  await platform.app.control.run(sql`update mail_queue set leased_until = now() where project_id = ${id}`)
  platform.app.directory.forget(id)
  await isEmpty(id)
  const times = recipients(server).filter(to => to === 'ada@example.test').length
  assert.equal(times, before + 1)
  const ids = server.received
    .filter(({ to }) => to[0] === 'ada@example.test')
    .map(({ mail }) => mail.messageId)
  assert.equal(new Set(ids).size, 1, 'a mail that comes twice can be known as one')
})

test('mail queue: concurrent nodes send each mail once', async () => {
  const server = await serve()
  const id = await projectAt(server.port)
  const second = await startPlatform({ beside: platform })
  try {
    const wanted = Array.from({ length: 40 }, (_, at) => `user${at}@example.test`)
    await Promise.all(wanted.map((to, at) => enqueue(id, to, at % 2 === 0 ? platform : second)))
    await isEmpty(id)
    assert.deepEqual(recipients(server).sort(), wanted.sort())
  } finally {
    await second.stop()
  }
})

test('mail queue: during a database outage no mail is sent twice, and sending resumes afterwards', async () => {
  const held = Promise.withResolvers<void>()
  const server = await serve({
    onMessage: ({ to }) => (to[0] === 'ada@example.test' ? held.promise : undefined),
  })
  const away = await startPlatform({ settings: allowsLocalMail })
  try {
    const { id } = await away.createProject()
    await setSmtp(id, server.port, {}, away)
    await enqueue(id, 'ada@example.test', away)
    const taken = sql`select from mail_queue where attempts = 1`
    await eventually(async () => (await away.app.control.rows(taken)).length === 1, 'a mail under way')
    await away.asSuperuser('postgres', async session => {
      await session.script(`alter database ${away.control} allow_connections false`)
      await session.run(
        sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${away.control}`,
      )
    })
    held.resolve()
    const isLogged = () => away.logged.some(line => line.includes('cannot record the outcome of a job'))
    await eventually(isLogged, 'the log line')
    await away.asSuperuser('postgres', session =>
      session.script(`alter database ${away.control} allow_connections true`),
    )
    const left = sql`select from mail_queue`
    const isDone = async () => (await away.app.control.rows(left).catch(() => [1])).length === 0
    await eventually(isDone, 'a record')
    await eventually(
      () =>
        enqueue(id, 'bob@example.test', away).then(
          () => true,
          () => false,
        ),
      'a queue that takes mail again',
    )
    await eventually(() => recipients(server).includes('bob@example.test'), 'the next mail')
    assert.deepEqual(recipients(server), ['ada@example.test', 'bob@example.test'])
  } finally {
    await away.stop()
  }
})

test('mail queue: mail older than a day is dropped and logged', async () => {
  const id = await projectAt(closedPort)
  await enqueue(id, 'ada@example.test')
  await eventually(async () => (await queued(id)).some(isPutOff), 'a failed attempt')
  await platform.call('POST', `/api/v1/projects/${id}/suspend`, { token: platform.adminToken })
  await platform.app.control.run(
    sql`update mail_queue set created_at = now() - interval '27 hours' where project_id = ${id}`,
  )
  const next = await startPlatform({ beside: platform })
  try {
    await isEmpty(id)
    await eventually(() => next.logged.some(line => line.includes(id) && line.includes('dropped')), 'a line')
  } finally {
    await next.stop()
  }
})
