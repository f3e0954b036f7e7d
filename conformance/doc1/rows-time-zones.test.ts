// REST contract §1 and §5: Prefer: timezone.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { appliedOf, assertRefused, type RowsApi, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `
    create table public.times (id int primary key, at timestamptz);
    insert into public.times values (1, '2020-06-01 12:00:00+00');
    create function public.zone() returns text language sql stable as $$ select current_setting('timezone') $$;
    `,
  )
})
after(() => it.stop())

const known = ['Europe/Paris', 'America/New_York', 'Asia/Kolkata', 'UTC', 'Etc/GMT+5', 'EST']
const unknown = [
  'Mars/Olympus',
  'europe/paris',
  'EUROPE/PARIS',
  'utc',
  '+02:00',
  '-5',
  'UTC+2',
  'GMT+02:00',
  'Europe/Paris/',
  '/etc/passwd',
  '../UTC',
  '"UTC"',
  '',
]

test('REST contract §1: every name that Postgres lists is applied', async () => {
  for (const zone of known) {
    const prefer = `handling=strict, timezone=${zone}`
    const reply = await rows.get('rpc/zone', { prefer })
    assert.deepEqual([reply.status, reply.body], [200, zone], reply.text)
    assert.ok(appliedOf(reply).includes(`timezone=${zone}`))
  }
  const [{ at }] = await rows.read('times', { prefer: 'timezone=Asia/Kolkata' })
  assert.equal(at, '2020-06-01T17:30:00+05:30')
})

test('REST contract §1: any other spelling is ignored and not claimed', async () => {
  const own = await rows.read('rpc/zone')
  for (const zone of unknown)
    for (const prefer of [`timezone=${zone}`, `handling=lenient, timezone=${zone}`]) {
      const reply = await rows.get('rpc/zone', { prefer })
      assert.deepEqual([reply.status, reply.body], [200, own], `${prefer}: ${reply.text}`)
      assert.ok(!appliedOf(reply).some(each => each.startsWith('timezone')), prefer)
    }
})

test('REST contract §5: any other spelling is 400 PGRST122 with strict handling, on reads, writes and calls', async () => {
  for (const zone of unknown) {
    const prefer = `handling=strict, timezone=${zone}`
    assertRefused(await rows.get('times', { prefer }), 400, 'PGRST122', { details: /timezone=/ })
  }
  const prefer = 'timezone=Mars/Olympus, handling=strict'
  assertRefused(await rows.post('times', { id: 2 }, { prefer }), 400, 'PGRST122')
  assertRefused(await rows.delete('times?id=eq.1', { prefer }), 400, 'PGRST122')
  assertRefused(await rows.get('rpc/zone', { prefer }), 400, 'PGRST122')
  assert.deepEqual(await rows.read('times?select=id'), [{ id: 1 }])
})
