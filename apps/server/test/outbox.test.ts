// The outbox of a project: its entries are relayed to the control database exactly once, with crashes and failures between
// the two databases.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Mail } from '#src/services/email/service.ts'
import { authProject } from './auth-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { enqueueMail } from './mail/enqueue.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const values = { user_name: 'Ada', action_url: 'https://app.test/', expires_in: '1 hour' }
const mailTo = (to: string): Mail => ({ to, template: 'welcome', values })

/** A transaction of the project that enqueues a mail, runs `rest` and commits. */
async function transaction(
  projectId: string,
  to: string,
  rest: (session: Session) => Promise<void> = async () => {},
  { app } = platform,
): Promise<Session> {
  const tenant = (await app.directory.find(projectId))!
  return app.databases.auth(tenant).transaction(async session => {
    await app.email.enqueue(session, tenant, mailTo(to))
    await rest(session)
    return session
  })
}
const relay = async (projectId: string, session: Session, { app } = platform) =>
  app.outbox.relayWritten(session, (await app.directory.find(projectId))!)

const catchAll = async (projectId: string) =>
  (
    await platform.call('GET', `/api/v1/projects/${projectId}/email/outbox?limit=100`, {
      token: platform.adminToken,
    })
  ).body
const caught = async (projectId: string): Promise<string[]> =>
  (await catchAll(projectId)).messages.map(({ to }: { to: string }) => to).sort()
const inProject = async (projectId: string, text: string) =>
  platform.asSuperuser(await platform.refOf(projectId), session => session.script(text))
const dueEvents = async (projectId: string) => {
  const read = (session: Session) =>
    session.rows<{ n: number }>(sql`select count(*)::int as n from platform.events where is_due`)
  return (await platform.asSuperuser(await platform.refOf(projectId), read))[0]!.n
}
/** Makes the mark due. */
const markIsOver = (projectId: string) =>
  platform.app.control.run(
    sql`update outbox_marks set check_at = now() - interval '1 second' where project_id = ${projectId}`,
  )

test('outbox: a mail is in the queue once its transaction has committed, and leaves the project', async () => {
  const { id } = await platform.createProject()
  await enqueueMail(platform, id, mailTo('ada@example.test'))
  assert.deepEqual(await caught(id), ['ada@example.test'])
  assert.equal(await dueEvents(id), 0)
})

test('outbox: an auth event is written in the transaction of the act', async () => {
  const project = await authProject(platform)
  await project.signUp('ada@example.test')
  const read = (session: Session) =>
    session.rows<{ same: boolean }>(sql`
      select e.xid::xid = i.xmin as same from platform.events e join auth.identities i
          on i.user_id = (e.payload ->> 'user_id')::uuid
       where e.kind = 'user.created'`)
  assert.deepEqual(await platform.asSuperuser(await platform.refOf(project.id), read), [{ same: true }])
})

test('outbox: a transaction that rolls back posts nothing', async () => {
  const { id } = await platform.createProject()
  await assert.rejects(
    transaction(id, 'never@example.test', async () => {
      throw new Error('roll back')
    }),
    /roll back/,
  )
  await enqueueMail(platform, id, mailTo('ada@example.test'))
  assert.deepEqual(await caught(id), ['ada@example.test'])
})

test('outbox: a transaction that commits late is not skipped', async () => {
  const { id } = await platform.createProject()
  const isWritten = Promise.withResolvers<void>()
  const mayCommit = Promise.withResolvers<void>()
  const late = transaction(id, 'late@example.test', () => {
    isWritten.resolve()
    return mayCommit.promise
  })
  await isWritten.promise
  await enqueueMail(platform, id, mailTo('early@example.test'))
  assert.deepEqual(await caught(id), ['early@example.test'])
  mayCommit.resolve()
  await relay(id, await late)
  assert.deepEqual(await caught(id), ['early@example.test', 'late@example.test'])
})

test('outbox: mails of a node that was killed after its commit are relayed by another', async () => {
  const { id } = await platform.createProject()
  const { control, adminToken, controlPlaneSecret, config } = platform
  const node = spawn(
    process.execPath,
    [
      join(import.meta.dirname, 'mail/killed-node.ts'),
      JSON.stringify({ beside: { control, adminToken, controlPlaneSecret, config }, projectId: id }),
    ],
    { stdio: 'inherit' },
  )
  const [, signal] = await once(node, 'exit')
  assert.equal(signal, 'SIGKILL')
  assert.deepEqual(await caught(id), [])
  assert.equal(await dueEvents(id), 1)
  await markIsOver(id)
  // Any project change triggers a poll of the nodes.
  await platform.createProject()
  await eventually(async () => (await caught(id)).length === 1, 'the mail of the killed node')
})

test('outbox: two nodes that relay at the same time relay each mail once', async () => {
  const { id } = await platform.createProject()
  const second = await startPlatform({ beside: platform })
  try {
    const all = Array.from({ length: 60 }, (_, at) => `user${at}@example.test`)
    await Promise.all(all.map((to, at) => enqueueMail(at % 2 ? platform : second, id, mailTo(to))))
    assert.deepEqual(await caught(id), all.toSorted())
    assert.equal(await dueEvents(id), 0)
    // If both nodes relayed a mail, the second insert would fail because of the same id.
    for (const { logged } of [platform, second])
      assert.deepEqual(
        logged.filter(line => line.includes(id) && line.includes('could not relay')),
        [],
      )
  } finally {
    await second.stop()
  }
})

test('outbox: events that were relayed and could not be deleted are not relayed again, and deleted later', async () => {
  const { id } = await platform.createProject()
  await inProject(id, 'revoke delete on platform.events from service_role')
  await enqueueMail(platform, id, mailTo('once@example.test'))
  assert.deepEqual(await caught(id), ['once@example.test'])
  assert.equal(await dueEvents(id), 1)
  await inProject(id, 'grant delete on platform.events to service_role')
  await enqueueMail(platform, id, mailTo('next@example.test'))
  assert.deepEqual(await caught(id), ['next@example.test', 'once@example.test'])
  assert.equal(await dueEvents(id), 0)
})

test('outbox: a run that finds nothing to relay deletes what a crash has left', async () => {
  const { id } = await platform.createProject()
  await inProject(id, 'revoke delete on platform.events from service_role')
  await enqueueMail(platform, id, mailTo('once@example.test'))
  assert.equal(await dueEvents(id), 1)
  await inProject(id, 'grant delete on platform.events to service_role')
  await markIsOver(id)
  // Any project change triggers a poll of the nodes.
  await platform.createProject()
  await eventually(async () => (await dueEvents(id)) === 0, 'the deletion of the relayed event')
  assert.deepEqual(await caught(id), ['once@example.test'])
})

test('outbox: an event that nobody can have posted is dropped, and holds up no other', async () => {
  const { id } = await platform.createProject()
  await inProject(
    id,
    `insert into platform.events (kind, payload, is_due) values
       ('mail', '{"sealed": "{\\"to\\": \\"spam@example.test\\"}"}', true), ('mail', '{}', true), ('nosuch', '{}', true)`,
  )
  await enqueueMail(platform, id, mailTo('ada@example.test'))
  assert.deepEqual(await caught(id), ['ada@example.test'])
  assert.equal(await dueEvents(id), 0)
})

test('outbox: more events than one batch are relayed in one go', async () => {
  const { id } = await platform.createProject()
  const tenant = (await platform.app.directory.find(id))!
  const session = await platform.app.databases.auth(tenant).transaction(async session => {
    for (let at = 0; at < 450; at++)
      await platform.app.email.enqueue(session, tenant, mailTo(`user${at}@example.test`))
    return session
  })
  await relay(id, session)
  assert.equal(await dueEvents(id), 0)
  // The catch-all keeps the last 200.
  assert.equal((await catchAll(id)).total, 200)
})

test('outbox: mails of a suspended project wait until it is resumed', async () => {
  const { id } = await platform.createProject()
  const session = await transaction(id, 'ada@example.test')
  await platform.projects.suspend({ params: { id } })
  await relay(id, session)
  assert.deepEqual(await dueEvents(id), 1)
  await markIsOver(id)
  await platform.projects.resume({ params: { id } })
  await eventually(async () => (await caught(id)).length === 1, 'the mail after the project was resumed')
})
