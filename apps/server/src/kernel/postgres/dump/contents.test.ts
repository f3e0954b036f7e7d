import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contentsOf, type DumpedObject, readContents, UnreadableDump } from './contents.ts'

const integer = (value: number) => {
  const bytes = Buffer.alloc(5)
  bytes[0] = value < 0 ? 1 : 0
  bytes.writeUInt32LE(Math.abs(value), 1)
  return bytes
}
const text = (value: string | undefined) =>
  value === undefined
    ? integer(-1)
    : Buffer.concat([integer(Buffer.byteLength(value)), Buffer.from(value, 'utf8')])

const sections = ['none', 'pre', 'data', 'post']

/** Writes what pg_dump writes in this minor version of its format. */
function encode(objects: DumpedObject[], { minor = 16, count = objects.length } = {}): Buffer {
  const entries = objects.map(({ tag, kind, schema, owner, section, sql, drop }, number) =>
    Buffer.concat([
      integer(number + 1),
      integer(0),
      ...['1259', '16384', tag, kind].map(text),
      integer(sections.indexOf(section) + 1),
      ...[sql, drop, undefined, schema, '', 'heap'].map(text),
      ...(minor >= 16 ? [integer(114)] : []),
      ...[owner, 'false', '12', '345', undefined].map(text),
      Buffer.from([3, 0, 0, 0, 0, 0, 0, 0, 0]),
    ]),
  )
  return Buffer.concat([
    Buffer.from('PGDMP'),
    Buffer.from([1, minor, 0, 4, 8, 1]),
    minor >= 15 ? Buffer.from([0]) : integer(-1),
    ...[1, 2, 3, 4, 5, 126, 0].map(integer),
    ...['database', '18.4', '18.4'].map(text),
    integer(count),
    ...entries,
  ])
}

const table: DumpedObject = {
  tag: 'Zoë',
  kind: 'TABLE',
  schema: 'public',
  owner: 'someone',
  section: 'pre',
  sql: 'CREATE TABLE public."Zoë" ();\n',
  drop: 'DROP TABLE public."Zoë";\n',
}
const publication: DumpedObject = {
  ...table,
  tag: 'changes',
  kind: 'PUBLICATION',
  schema: undefined,
  section: 'post',
}
const objects = [table, publication]
const isUnreadable = (message: RegExp) => (error: unknown) =>
  error instanceof UnreadableDump && message.test(error.message)

test('dump contents: objects are read from every supported version of the format', () => {
  for (const minor of [14, 15, 16]) assert.deepEqual(readContents(encode(objects, { minor })), objects)
})

test('dump contents: a truncated dump is refused, wherever it ends', () => {
  const dump = encode(objects)
  for (let length = 0; length < dump.length; length++)
    assert.throws(() => readContents(dump.subarray(0, length)), isUnreadable(/damaged or incomplete/))
})

test('dump contents: other bytes are refused', () => {
  assert.throws(() => readContents(Buffer.from('-- PostgreSQL database dump')), isUnreadable(/not a dump/))
  assert.throws(() => readContents(encode(objects, { minor: 17 })), isUnreadable(/version 1\.17/))
  assert.throws(() => readContents(encode(objects, { minor: 10 })), isUnreadable(/version 1\.10/))
  const latin1 = Buffer.from(encode(objects).toString('latin1').replace('Zo\xc3\xab', 'Zo\xeb!'), 'latin1')
  assert.throws(() => readContents(latin1), isUnreadable(/UTF-8/))
})

test('dump contents: a wrong number of entries is refused before memory is reserved for it', () => {
  for (const count of [3, 2 ** 32 - 1])
    assert.throws(() => readContents(encode(objects, { count })), isUnreadable(/damaged or incomplete/))
  assert.throws(() => readContents(encode(objects, { count: -1 })), isUnreadable(/-1 entries/))
})

test('dump contents: a damaged byte gives other objects or a clear error', () => {
  const dump = encode(objects)
  for (let at = 0; at < dump.length; at++)
    for (const bits of [0x01, 0x80, 0xff]) {
      const damaged = Buffer.from(dump)
      damaged[at]! ^= bits
      try {
        assert.ok(Array.isArray(readContents(damaged)))
      } catch (error) {
        assert.ok(error instanceof UnreadableDump, String(error))
      }
    }
})

test('dump contents: a large dump is read in slices', () => {
  const large = Array.from({ length: 100 }, () => ({ ...table, sql: 'x'.repeat(10_000) }))
  const work = contentsOf(encode(large))
  let slices = 1
  for (let result = work.next(); ; result = work.next(), slices++) {
    if (!result.done) continue
    assert.equal(result.value.length, 100)
    break
  }
  assert.ok(slices > 2, String(slices))
})
