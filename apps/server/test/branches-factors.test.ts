// Second factors in copies of a project: their secrets are sealed for the id of the project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { raw } from '#src/kernel/postgres/sql.ts'
import { password } from './auth-project.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { anyHoldMs, branchesOf, ownerSession } from './branch-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { claimsOf, codeOf, type Factor } from './mfa-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ branchHoldMs: anyHoldMs })
})
after(() => platform?.stop())

const email = 'someone@example.test'

interface Keys {
  id: string
  anon_key: string
}

async function works(reply: ReturnType<TestPlatform['call']>): Promise<any> {
  const { status, body } = await reply
  assert.ok(status < 300, `${status} ${JSON.stringify(body)}`)
  return body
}
const auth = ({ id, anon_key: apikey }: Keys, path: string, body: unknown, token?: string) =>
  works(platform.call('POST', `/v1/${id}/auth/v1${path}`, { apikey, body, ...(token && { token }) }))
const rowsIn = async <T>(id: string, text: string): Promise<T[]> =>
  platform.asSuperuser(await platform.refOf(id), session => session.rows<T>(raw(text)))

async function verified(project: Keys, token: string, factor: Factor): Promise<string> {
  const challenge = await auth(project, `/factors/${factor.id}/challenge`, {}, token)
  const answer = { challenge_id: challenge.id, code: codeOf(factor) }
  const { access_token: raised } = await auth(project, `/factors/${factor.id}/verify`, answer, token)
  return claimsOf(raised).aal
}

/** With a verified factor, and a trigger that notes who changes factors. */
async function guardedProject(): Promise<{ project: BackedUpProject; factor: Factor }> {
  const project = await backedUpProject(platform)
  const { access_token: token } = await project.signUp(email)
  const { id, totp } = await auth(project, '/factors', { factor_type: 'totp' }, token)
  const factor = { id, secret: totp.secret }
  assert.equal(await verified(project, token, factor), 'aal2')
  // Another code of the same time is accepted in the copy. One that a project writes itself does not open.
  await project.sql(`
    update auth.mfa_factors set last_used_step = null;
    insert into auth.mfa_factors (user_id, factor_type, friendly_name, secret)
    select user_id, 'totp', name, secret from auth.mfa_factors, (values ('moved'), ('other')) as n (name)`)
  await project.sql(`
    create table seen (name text);
    create function note() returns trigger language plpgsql security definer as $$ begin
      insert into public.seen values (session_user); return new; end $$;
    create trigger note before update on auth.mfa_factors for each row execute function note();
    alter table auth.mfa_factors enable always trigger note;
    create trigger replicated before update on auth.mfa_factors for each row execute function note();
    alter table auth.mfa_factors enable replica trigger replicated;
    create trigger quiet before update on auth.mfa_factors for each row execute function note();
    alter table auth.mfa_factors disable trigger quiet`)
  return { project, factor }
}

async function assertRaises(copy: Keys, factor: Factor): Promise<void> {
  assert.deepEqual(await rowsIn(copy.id, 'select * from public.seen'), [], 'no trigger of the tenant has run')
  const triggers = await rowsIn(
    copy.id,
    `select tgname as name, tgenabled::text as state from pg_trigger
      where tgrelid = 'auth.mfa_factors'::regclass and not tgisinternal order by 1`,
  )
  assert.deepEqual(triggers, [
    { name: 'note', state: 'A' },
    { name: 'quiet', state: 'D' },
    { name: 'replicated', state: 'R' },
  ])
  const { access_token: token } = await auth(copy, '/token?grant_type=password', { email, password })
  assert.equal(claimsOf(token).aal, 'aal1')
  assert.equal(await verified(copy, token, factor), 'aal2')
}

for (const isHeld of [false, true])
  test(`branch: a second factor of the parent is one of the branch, copied ${isHeld ? 'by objects' : 'as a whole'}`, async () => {
    const { project, factor } = await guardedProject()
    const held = isHeld ? await ownerSession(platform, project.id) : undefined
    const branches = branchesOf(platform, project.id)
    const branch = await branches.create({ name: 'guarded' })
    assert.equal((await branches.read('guarded')).method === 'logical', isHeld)
    await assertRaises(branch, factor)
    await branches.api.reset({ params: { id: project.id, slug: 'guarded' } })
    assert.deepEqual((await branches.ended('guarded')).error, null)
    await held?.end()
    await assertRaises(branch, factor)
  })

test('new project: a second factor in a backup is one of the project that is made from it', async () => {
  const { project, factor } = await guardedProject()
  const backup = await project.backUp()
  const restored = await works(
    platform.call('POST', `/api/v1/projects/${project.id}/backups/${backup.id}/restore`, {
      token: platform.adminToken,
      body: { new_project: { name: 'Guarded again' } },
    }),
  )
  const { error } = await project.restoreEnded(restored.restore.id, ['done', 'failed'])
  assert.equal(error, null)
  await assertRaises(restored.project, factor)
})
