// Issue "Rows": the API uses a changed schema within a second, and never returns a wrong result meanwhile.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sleep } from '../people.ts'
import { type RowsApi, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `create table public.things (id int primary key, name text); insert into public.things values (1, 'one');
     create function public.answer() returns int language sql stable as $$ select 1 $$;`,
  )
})
after(() => it.stop())

const open = (table: string) => `create policy everybody on public.${table} using (true) with check (true);`

/**
 * Repeats the request until the reply is the wanted one. The API may take a second; the rest of the timeout
 * is for a busy machine.
 */
async function within(ask: () => Promise<Reply>, isWanted: (reply: Reply) => boolean): Promise<void> {
  const start = Date.now()
  for (;;) {
    const asked = Date.now()
    const reply = await ask()
    assert.ok(reply.status < 500, `${reply.status} ${reply.text}`)
    if (isWanted(reply)) return
    assert.ok(asked - start < 60_000, `still ${reply.status} ${reply.text}`)
    await sleep(20)
  }
}
/** Repeats a request until its statement is prepared. */
const prime = async (path: string) => {
  for (let i = 0; i < 12; i++) await rows.get(path)
}

test('Issue: a created and a dropped table', async () => {
  await rows.sql(
    `create table public.extra (id int primary key); ${open('extra')} insert into public.extra values (7)`,
  )
  await within(
    () => rows.get('extra', { shape: 'alias' }),
    reply => reply.status === 200 && reply.body[0].id === 7,
  )
  await prime('extra')
  await rows.sql('drop table public.extra')
  await within(
    () => rows.get('extra'),
    reply => reply.status === 404,
  )
})

test('Issue: an added and a dropped column appear in *, without an error meanwhile', async () => {
  for (const path of ['things', 'things?select=*,name', 'things?select=id']) await prime(path)
  await rows.sql("alter table public.things add column extra text default 'x'")
  for (const path of ['things', 'things?select=*'])
    await within(
      () => rows.get(path),
      reply => reply.status === 200 && 'extra' in reply.body[0],
    )
  await within(
    () =>
      rows.post(
        'things?select=extra',
        { id: 2, extra: 'y' },
        { prefer: 'return=representation,tx=rollback' },
      ),
    reply => reply.status === 201 && reply.body[0].extra === 'y',
  )
  await prime('things')
  await rows.sql('alter table public.things drop column extra')
  await within(
    () => rows.get('things'),
    reply => reply.status === 200 && !('extra' in reply.body[0]),
  )
  await within(
    () => rows.get('things?select=extra'),
    reply => reply.status === 400 && reply.body.code === '42703',
  )
})

test('Issue: a changed column type', async () => {
  await rows.sql('alter table public.things add column size int default 5')
  await within(
    () => rows.get('things?size=eq.5'),
    reply => reply.status === 200,
  )
  await prime('things?size=eq.5&select=size')
  await rows.sql("alter table public.things alter column size type text using 'L'")
  await within(
    () => rows.get('things?size=eq.L&select=size'),
    reply => reply.status === 200 && reply.body[0]?.size === 'L',
  )
})

test('Issue: after two tables swap names, no request returns rows of the wrong one', async () => {
  await rows.ddl(`create table public.left_one (side text); create table public.right_one (side text);
    ${open('left_one')} ${open('right_one')}
    insert into public.left_one values ('left'); insert into public.right_one values ('right')`)
  await prime('left_one?select=side')
  await prime('right_one?select=side')
  for (let i = 0; i < 4; i++) {
    await rows.sql(
      `alter table public.left_one rename to swap; alter table public.right_one rename to left_one; alter table public.swap rename to right_one`,
    )
    const wanted = i % 2 === 0 ? 'right' : 'left'
    // The rename is committed: from now on the name must mean the other table.
    assert.deepEqual(await rows.read('left_one?select=side'), [{ side: wanted }])
  }
})

test('Issue: a relationship appears and disappears with its foreign key', async () => {
  await rows.sql(
    `create table public.parts (id int primary key, thing_id int); ${open('parts')} insert into public.parts values (1, 1)`,
  )
  await within(
    () => rows.get('parts?select=id,things(name)'),
    reply => reply.status === 400 && reply.body.code === 'PGRST200',
  )
  await rows.sql(
    'alter table public.parts add constraint to_thing foreign key (thing_id) references public.things',
  )
  await within(
    () => rows.get('parts?select=id,things(name)'),
    reply => reply.status === 200 && reply.body[0].things.name === 'one',
  )
  await rows.sql('alter table public.parts drop constraint to_thing')
  await within(
    () => rows.get('parts?select=id,things(name)'),
    reply => reply.status === 400 && reply.body.code === 'PGRST200',
  )
})

test('Issue: a replaced, a changed and a dropped function', async () => {
  await prime('rpc/answer')
  await rows.sql(
    'create or replace function public.answer() returns int language sql stable as $$ select 2 $$',
  )
  assert.equal(await rows.read('rpc/answer'), 2)
  await rows.sql(
    "drop function public.answer(); create function public.answer(name text default 'x') returns text language sql stable as $$ select name $$",
  )
  await within(
    () => rows.get('rpc/answer?name=y'),
    reply => reply.status === 200 && reply.body === 'y',
  )
  await rows.sql('drop function public.answer(text)')
  await within(
    () => rows.get('rpc/answer'),
    reply => reply.status === 404,
  )
})

test('Issue: schema changes during many requests cause no 5xx and no wrong row', async () => {
  await rows.ddl(
    `create table public.busy (id int primary key, a text); ${open('busy')} insert into public.busy values (1, 'a')`,
  )
  let isChanging = true
  const changing = (async () => {
    for (let i = 0; i < 8; i++)
      await rows.sql(
        `alter table public.busy add column c${i} int; alter table public.busy drop column c${i}`,
      )
    isChanging = false
  })()
  while (isChanging) {
    const [whole, part] = await Promise.all([rows.get('busy'), rows.get('busy?select=a&id=eq.1')])
    assert.equal(whole.status, 200, whole.text)
    assert.equal(whole.body[0].a, 'a')
    assert.deepEqual(part.body, [{ a: 'a' }], part.text)
  }
  await changing
})
