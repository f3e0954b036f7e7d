// Statements that were planned before a schema change.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import { databaseNodes, user1 } from './database-nodes.ts'

const { newProject, asOwner, ask, askOne } = databaseNodes()

describe('schema changes', () => {
  for (const mayPipeline of [false, true])
    it(`no statement fails because of a stale plan, ${mayPipeline ? 'pipelined' : 'on a connection of its own'}`, async () => {
      const changing = await newProject('create table things (a int); insert into things values (1)')
      const read = (text: string, values: Value[] = []) =>
        ask(changing, 'service_role', text, { values, mayPipeline })
      const all = 'select * from things order by 1'
      const one = 'select count(*) from things where a = $1'
      const add = 'insert into things (a) values ($1) returning *'
      const prime = async () => {
        for (let run = 0; run < 7; run++) await read(all)
        for (let run = 0; run < 7; run++) await read(one, ['1'])
      }
      await prime()
      await read(add, ['2'])
      await asOwner(changing, 'alter table things add b text')
      assert.deepEqual(await read(all), [
        ['1', null],
        ['2', null],
      ])
      assert.deepEqual(await read(add, ['3']), [['3', null]])
      await prime()
      await asOwner(changing, 'alter table things alter a type text using a::text')
      assert.deepEqual(await read(one, ['not a number']), [['0']])
      assert.deepEqual(await read(add, ['four']), [['four', null]])
      await prime()
      await asOwner(changing, 'drop table things; create table things (a uuid)')
      assert.deepEqual(await read(all), [])
      assert.deepEqual(await read(add, [user1]), [[user1]])
      assert.deepEqual(await read(one, [user1]), [['1']])
      await asOwner(changing, 'drop table things')
      await assert.rejects(read(all), { code: '42P01' })
      await asOwner(changing, 'create table things (a int, b int); insert into things values (7, 8)')
      assert.deepEqual(await read(all), [['7', '8']])
      await asOwner(changing, 'alter table things drop a')
      await assert.rejects(read(one, ['7']), { code: '42703' })
      assert.deepEqual(await read(all), [['8']])
    })

  it('a column changed to a wider type accepts the wider values', async () => {
    const changing = await newProject('create table things (a int, d date)')
    const add = 'insert into things (a, d) values ($1, $2)'
    await ask(changing, 'service_role', add, { values: ['1', '2026-01-01'] })
    await asOwner(changing, 'alter table things alter a type bigint')
    await ask(changing, 'service_role', add, { values: ['3000000000', '2026-01-01'] })
    await asOwner(changing, 'alter table things alter d type text')
    await ask(changing, 'service_role', add, { values: ['1', 'some day'] })
  })

  it('a column changed to a more precise type stores the exact value', async () => {
    const changing = await newProject('create table things (f real, at timestamp)')
    const add = 'insert into things (f, at) values ($1, $2)'
    await ask(changing, 'service_role', add, { values: ['0.5', '2026-01-01T00:00:00'] })
    await asOwner(
      changing,
      `truncate things; alter table things alter f type float8, alter at type timestamptz using at at time zone 'UTC'`,
    )
    await ask(changing, 'service_role', add, { values: ['0.1', '2026-01-01T12:00:00+02'] })
    const stored = await ask(changing, 'service_role', `select f, at = '2026-01-01T10:00:00Z' from things`)
    assert.deepEqual(stored, [['0.1', 't']])
  })

  it('a pipelined statement with typed parameters stores the exact value after such a change', async () => {
    const changing = await newProject('create table things (f real, at timestamp)')
    const add = (f: string, at: string) =>
      ask(
        changing,
        'service_role',
        'insert into things (f, at) select f, at from json_populate_record(null::things, $1::json)',
        { values: [JSON.stringify({ f, at })], mayPipeline: true },
      )
    for (let run = 0; run < 60; run++) await add('0.5', '2026-01-01T00:00:00')
    await asOwner(
      changing,
      `truncate things; alter table things alter f type float8, alter at type timestamptz using at at time zone 'UTC'`,
    )
    for (let run = 0; run < 10; run++) await add('0.1', '2026-01-01T12:00:00+02')
    const right = `select count(*) from things where f = 0.1 and at = '2026-01-01T10:00:00Z'`
    assert.equal(await askOne(changing, 'service_role', right), '10')
  })
})
