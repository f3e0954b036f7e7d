// 1 §2.4, §4.5 and the auth contract §2 and §4: sign-up with a password and without anything.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthApi, authProject } from '../auth.ts'
import { type Target, target } from '../target.ts'
let it: Target
let auth: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
})
after(() => it.stop())
test('smoke', async () => {
  const me = await auth.signUp({data: {a: 1}})
  console.log(JSON.stringify(me, null, 1))
  console.log(await auth.mailsTo(me.email))
  for (const q of ['select type, email, user_id from auth.events', 'select current_user', 'select * from auth.users'])
  console.log(await it.call('POST', `/v1/rest/${auth.project.id}/rpc/exec_sql`, { apikey: auth.project.service_role_key, body: { sql: q } }).then(r => r.text))
  console.log(await auth.kindsTo(me.email))
  assert.ok(1)
})
