// Case 53: triggers, checks and foreign keys of a project on its users raise errors, loop, recurse or skip rows. Every
// auth flow answers with a 4xx and their message.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { type AuthProject, authProject, password } from './auth-project.ts'
import { caughtMail } from './caught-mail.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: AuthProject
before(async () => {
  platform = await startPlatform()
  project = await authProject(platform, { anonymous_enabled: true })
})
after(() => platform?.stop())

const address = () => `${randomBytes(6).toString('hex')}@example.test`
const asSuperuser = async (text: string) =>
  platform.asSuperuser(await platform.refOf(project.id), session => session.script(text))
const manage = (method: string, path: string, body?: unknown) =>
  platform.call(method, `/api/v1/projects/${project.id}${path}`, { token: platform.adminToken, body })

/** Created as the project's owner. */
async function withTrigger<T>(when: string, body: string, work: () => Promise<T>): Promise<T> {
  const made = await platform.call('POST', `/v1/rest/${project.id}/rpc/exec_sql`, {
    apikey: project.service_role_key,
    body: {
      sql: `create function public.t() returns trigger language plpgsql as $$ begin ${body} end $$;
            create trigger t ${when} on auth.users for each row execute function public.t()`,
    },
  })
  assert.equal(made.status, 200, JSON.stringify(made.body))
  try {
    return await work()
  } finally {
    await asSuperuser('drop function public.t cascade')
  }
}

const text = 'only our own people'
const raising = (event: string, work: () => Promise<void>) =>
  withTrigger(
    `before ${event}`,
    `raise exception '${text}' using errcode = 'XX000', detail = to_jsonb(coalesce(new, old))::text; return new;`,
    work,
  )

function assertOwnText({ status, body }: Reply): void {
  assert.deepEqual([status, body.code, body.msg], [400, 'XX000', text], JSON.stringify(body))
  // The detail of the error shows the row with the password hash.
  assert.equal(body.details, '')
}

const assertManaged = ({ status, body }: Reply) => {
  assert.equal(status, 400, JSON.stringify(body))
  assert.match(body.error.message, new RegExp(`^${text} \\(SQLSTATE XX000\\)`))
}

test('case 53: auth: a trigger error while creating a user is answered with 400 and its message', () =>
  raising('insert', async () => {
    assertOwnText(await project.auth('POST', '/signup', { email: address(), password }))
    assertOwnText(await project.auth('POST', '/signup', { data: {} }))
    assertOwnText(await project.asAdmin('POST', '/admin/users', { email: address(), password }))
    assertOwnText(await project.asAdmin('POST', '/invite', { email: address() }))
    assertOwnText(
      await project.asAdmin('POST', '/admin/generate_link', { type: 'signup', email: address(), password }),
    )
    assertManaged(await manage('POST', '/users', { email: address(), password }))
    const imported = await manage('POST', '/users/import', { users: [{ email: address() }] })
    assert.equal(imported.status, 200)
    assert.match(imported.body.results[0].reason, new RegExp(text))
  }))

test('case 53: auth: a one-time code for a new address gets the answer of a known one, or the message of the trigger', async () => {
  const known = address()
  await project.signUp(known)
  await raising('insert', async () => {
    const reply = await project.auth('POST', '/otp', { email: address() })
    assert.ok(reply.status < 500, JSON.stringify(reply.body))
    assert.equal((await project.auth('POST', '/otp', { email: known })).status, 200)
  })
})

test('case 53: auth: a trigger error while updating a user is answered with 400 and its message', async () => {
  const email = address()
  const { access_token: token, user } = await project.signUp(email)
  const invited = address()
  await project.asAdmin('POST', '/invite', { email: invited })
  const [mail] = await caughtMail(platform, project.id, invited)
  await raising('update', async () => {
    assertOwnText(await project.asUser(token, 'PUT', '/user', { data: { a: 1 } }))
    assertOwnText(await project.asUser(token, 'PUT', '/user', { password: 'another horse' }))
    assertOwnText(await project.asAdmin('PUT', `/admin/users/${user.id}`, { user_metadata: { a: 1 } }))
    assertOwnText(await project.signIn(email))
    assertOwnText(await project.auth('POST', '/verify', { type: 'invite', token_hash: mail!.token }))
    assertManaged(await manage('POST', `/users/${user.id}/ban`, { duration: '1h' }))
    const link = await fetch(mail!.link!, { redirect: 'manual' })
    assert.equal(link.status, 303)
    assert.match(link.headers.get('location')!, /only\+our\+own\+people|only%20our%20own%20people/)
  })
  assert.equal((await project.signIn(email)).status, 200)
})

test('case 53: auth: a trigger error while deleting a user is answered with 400 and its message', async () => {
  const { user } = await project.signUp(address())
  await withTrigger(
    'before delete',
    `raise exception '${text}' using errcode = 'XX000'; return old;`,
    async () => {
      assertOwnText(await project.asAdmin('DELETE', `/admin/users/${user.id}`))
      assertManaged(await manage('DELETE', `/users/${user.id}`))
    },
  )
  assert.equal((await manage('GET', `/users/${user.id}`)).status, 200)
})

const misbehaviours: Record<string, [when: string, body: string]> = {
  'leaves rows out': ['before insert or update', 'return null;'],
  'deletes the user': ['after insert or update', 'delete from auth.users where id = new.id; return null;'],
  recurses: [
    'after insert or update',
    'update auth.users set updated_at = now() where id = new.id; return null;',
  ],
  'breaks a reference': [
    'after insert or update',
    `create temp table if not exists parent (id int primary key);
     create temp table if not exists child (id int references parent);
     insert into child values (1); return null;`,
  ],
  'casts a text': ['before insert or update', `new.created_at := 'never'; return new;`],
  'breaks a check of ours': ['before insert or update', 'new.email := null; new.id := null; return new;'],
  'names nothing': ['before insert or update', 'perform * from nowhere; return new;'],
}
for (const [what, [when, body]] of Object.entries(misbehaviours))
  test(`case 53: auth: no flow answers 500 for a trigger that ${what}`, async () => {
    const email = address()
    const { access_token: token, refresh_token, user } = await project.signUp(email)
    await withTrigger(when, body, async () => {
      for (const act of [
        () => project.auth('POST', '/signup', { email: address(), password }),
        () => project.auth('POST', '/signup', { data: {} }),
        () => project.asAdmin('POST', '/admin/users', { email: address() }),
        () => project.asAdmin('POST', '/invite', { email: address() }),
        () => project.auth('POST', '/otp', { email: address() }),
        () => project.auth('POST', '/otp', { email }),
        () => project.auth('POST', '/recover', { email }),
        () => project.asUser(token, 'PUT', '/user', { data: { a: 1 } }),
        () => project.asUser(token, 'PUT', '/user', { email: address() }),
        () => project.signIn(email),
        () => project.auth('POST', '/token?grant_type=refresh_token', { refresh_token }),
        () => project.asAdmin('PUT', `/admin/users/${user.id}`, { email: address() }),
        () => manage('POST', '/users', { email: address() }),
        () => manage('POST', '/users/import', { users: [{ email: address() }] }),
        () => manage('POST', `/users/${user.id}/ban`, {}),
        () => manage('POST', `/users/${user.id}/unban`),
        () => manage('DELETE', `/users/${user.id}`),
      ]) {
        const reply = await act()
        assert.ok(reply.status < 500, `${act}: ${reply.status} ${JSON.stringify(reply.body)}`)
      }
    })
  })

test('case 53: auth: deleting a user that a row of the project references is 409', async () => {
  const { user } = await project.signUp(address())
  await asSuperuser(
    `create table public.posts (author uuid references auth.users); insert into public.posts values ('${user.id}')`,
  )
  const reply = await project.asAdmin('DELETE', `/admin/users/${user.id}`)
  assert.deepEqual([reply.status, reply.body.code], [409, 'conflict'])
  const managed = await manage('DELETE', `/users/${user.id}`)
  assert.deepEqual([managed.status, managed.body.error.code], [409, 'constraint_violated'])
})
