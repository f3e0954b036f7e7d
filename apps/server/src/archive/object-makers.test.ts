import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DumpedObject } from '#src/kernel/postgres/dump/contents.ts'
import { isTenants, tenantStatement } from './object-makers.ts'

const trigger = (sql: string): DumpedObject => ({
  tag: 'things stamp',
  kind: 'TRIGGER',
  schema: 'public',
  owner: 'p_one_owner',
  section: 'post',
  sql,
  drop: '',
})
const isByTenant = (sql: string) => isTenants(trigger(sql), 'p_one')
const create = (name: string, end: string) =>
  `CREATE TRIGGER ${name} AFTER INSERT ON public.things FOR EACH ROW ${end};\n`

test('triggers: one is the platform’s if it calls a function of the platform without a condition', () => {
  const call = 'EXECUTE FUNCTION platform.note_change'
  assert.equal(isByTenant(create('stamp', `${call}()`)), false)
  assert.equal(isByTenant(create(`"${call}() "" WHEN ( '"`, `${call}('it''s WHEN ("')`)), false)
  const tenants = [
    create('stamp', 'EXECUTE FUNCTION public.stamp()'),
    create('stamp', `EXECUTE FUNCTION public.stamp(' ${call}()')`),
    create(`"${call}()"`, 'EXECUTE FUNCTION public.stamp()'),
    create(`"a"" ${call}()"`, 'EXECUTE FUNCTION public.stamp()'),
    create('stamp', `EXECUTE FUNCTION public." ${call}()"()`),
    create('stamp', `WHEN ((new.note = ''::text)) ${call}()`),
    create('stamp', `WHEN ((new.note = ' ${call}()'::text)) ${call}()`),
    create(`"it's"`, `EXECUTE FUNCTION public.stamp(' ${call}(', '"')`),
  ]
  for (const sql of tenants) assert.equal(isByTenant(sql), true, sql)
})

test('triggers: literals of any length are not searched', () => {
  const long = `'${`"'' WHEN (`.repeat(100_000)}'`
  assert.equal(isByTenant(create('stamp', `EXECUTE FUNCTION platform.note_change(${long})`)), false)
  assert.equal(isByTenant(create('stamp', `EXECUTE FUNCTION public.stamp(${long})`)), true)
  // Postgres writes no names of this length.
  const name = `"${'a'.repeat(1024 * 1024)}"`
  assert.equal(isByTenant(create(name, 'EXECUTE FUNCTION platform.note_change()')), true)
})

test('triggers: the tenant sets the state of one on auth tables with a call, also behind a long literal', () => {
  for (const argument of ['', `'${'a'.repeat(100_000)}'`]) {
    const beginning = `CREATE TRIGGER "a ""b" AFTER INSERT ON auth.users FOR EACH ROW EXECUTE FUNCTION public.stamp(${argument});\n`
    assert.equal(tenantStatement(trigger(beginning)), beginning)
    assert.equal(
      tenantStatement(trigger(`${beginning}\nALTER TABLE auth.users ENABLE ALWAYS TRIGGER "a ""b";\n\n\n`)),
      `${beginning}\ncall platform.set_auth_trigger('users', 'a "b', 'enable always');`,
    )
  }
})
