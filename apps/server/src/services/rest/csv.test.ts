import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCsv } from './csv.ts'

const rows = (text: string) => parseCsv(Buffer.from(text))

test('a header line names the values of the lines below it', () => {
  assert.deepEqual(rows('a,b\n1,x\r\n2,"y, z"\n'), [
    { a: '1', b: 'x' },
    { a: '2', b: 'y, z' },
  ])
})

test('quotes hide commas, line ends and doubled quotes', () => {
  assert.deepEqual(rows('a,b\n"l1\nl2","say ""hi"""'), [{ a: 'l1\nl2', b: 'say "hi"' }])
})

test('NULL is null, "NULL" is a text, nothing is an empty text', () => {
  assert.deepEqual(rows('a,b,c\nNULL,"NULL",'), [{ a: null, b: 'NULL', c: '' }])
})

test('a byte order mark is no part of the first name', () => {
  assert.deepEqual(rows('\uFEFFa\n1'), [{ a: '1' }])
})

for (const text of ['', 'a,b\n1', 'a\n1,2', 'a\n"open', 'a\n"x"y'])
  test(`${JSON.stringify(text)} is refused`, () => assert.throws(() => rows(text), { code: 'PGRST102' }))
