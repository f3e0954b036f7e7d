import assert from 'node:assert/strict'
import { test } from 'node:test'
import { splitStatements } from '#src/kernel/postgres/statements.ts'
import { atOnce } from '#src/kernel/slices.ts'
import { withAuthTriggerCalls } from './auth-trigger-statements.ts'

const split = (script: string) => atOnce(splitStatements(script))
const sent = (script: string) => atOnce(withAuthTriggerCalls(script, split(script)))

test('auth triggers: a recognised statement is replaced, and the rest of the script is unchanged', () => {
  const statement = 'drop trigger t on auth.users'
  const script = `select '${statement}';\n${statement};\n-- ${statement}\nselect $$ ${statement} $$;\n`
  assert.deepEqual(sent(script), {
    text: `select '${statement}';\ncall platform.drop_auth_trigger('users', 't', false);\n-- ${statement}\nselect $$ ${statement} $$;\n`,
    lastTag: undefined,
  })
})

test('auth triggers: a statement inside a comment is not replaced', () => {
  const statement = 'drop trigger t on auth.users'
  assert.equal(
    sent(`select 1; /* ${statement} */; ${statement}`).text,
    `select 1; /* ${statement} */; call platform.drop_auth_trigger('users', 't', false)`,
  )
})

test('auth triggers: several actions of one statement become one statement', () => {
  assert.deepEqual(sent(`alter table auth.users disable trigger "it's", enable always trigger b`), {
    text: `do 'begin call platform.set_auth_trigger(''users'', ''it''''s'', ''disable'', false); call platform.set_auth_trigger(''users'', ''b'', ''enable always'', false); end'`,
    lastTag: 'ALTER TABLE',
  })
})

test('auth triggers: rewriting yields to the event loop every 500 statements', () => {
  const script = 'select 1;'.repeat(2000)
  assert.equal([...withAuthTriggerCalls(script, split(script))].length, 3)
})

const untouched = [
  'drop trigger t on users',
  'drop trigger t on public.users',
  'drop trigger t on "Auth".users',
  'drop trigger t on a.auth.users',
  'drop trigger t on auth.users.x',
  'drop trigger t, u on auth.users',
  'drop trigger U&"t" on auth.users',
  'drop trigger t on auth.users cascade restrict',
  'drop event trigger t',
  'alter table auth.users disable trigger user',
  'alter table auth.users disable trigger ALL',
  'alter table auth.users disable trigger t, add column c int',
  'alter table auth.users disable rule t',
  'alter trigger t on auth.users depends on extension x',
  `comment on trigger t on auth.users is E'x'`,
  `comment on trigger t on auth.users is 'a'\n'b'`,
  'comment on table auth.users is null',
  `drop trigger t on auth.users /* never closed`,
  `drop trigger ${'x'.repeat(70_000)} on auth.users`,
]
for (const statement of untouched)
  test(`auth triggers: sent unchanged: ${statement.slice(0, 70)}`, () => {
    assert.deepEqual(sent(statement), { text: statement, lastTag: undefined })
  })
