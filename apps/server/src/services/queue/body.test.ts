import assert from 'node:assert/strict'
import { test } from 'node:test'
import { manyMessages, maxMessageValues, oneMessage, parseMessageIds, parseReadOptions } from './body.ts'

const bytes = (text: string) => Buffer.from(text)
const list = (count: number, element: string) => `[${Array(count).fill(element).join()}]`
const space = ' '.repeat(70_000)

test('queue body: a message of any size is passed on unchanged', async () => {
  for (const padding of ['', space]) {
    const body = bytes(`{"message":{"__proto__":[12345678901234567890]},${padding}"delay":5}`)
    assert.deepEqual(await oneMessage(body), { json: body, delay: 5 })
  }
})

test('queue body: the number of values in a message is limited', async () => {
  const most = maxMessageValues - 2
  assert.ok(await oneMessage(bytes(`{"message":${list(most, '1')}}`)))
  await assert.rejects(oneMessage(bytes(`{"message":${list(most + 1, '1')}}`)), { status: 413 })
})

test('queue body: a batch has at most 10,000 messages, with one header object for each', async () => {
  for (const padding of ['', space]) {
    const batch = (messages: string, headers: string) =>
      manyMessages(bytes(`{"messages":${messages},${padding}"headers":${headers}}`))
    assert.ok(await batch('[1,[2],{"a":3}]', '[null,{},{"x":[1]}]'))
    await assert.rejects(batch('[1,2]', '[{}]'), { status: 400 })
    await assert.rejects(batch('[1,2]', '[{},[]]'), { message: /"headers.1" must be an object/ })
    await assert.rejects(batch('[1,2]', '[{},"x"]'), { message: /"headers.1" must be an object/ })
    await assert.rejects(batch('{}', 'null'), { message: /"messages" must be an array/ })
  }
  assert.ok(await manyMessages(bytes(`{"messages":${list(10_000, '{"a":[]}')}}`)))
  await assert.rejects(manyMessages(bytes(`{"messages":${list(10_001, '0')}}`)), { status: 400 })
})

test('queue body: the error for an unknown field names it', async () => {
  for (const padding of ['', space])
    await assert.rejects(oneMessage(bytes(`{"message":1,${padding}"more":2}`)), {
      message: /unknown field "more"/,
    })
})

test('queue body: numbers that Postgres would expand to many digits are rejected', async () => {
  for (const padding of ['', space]) {
    await assert.rejects(oneMessage(bytes(`{"message":[1e-1000001],${padding}"delay":0}`)), { status: 400 })
    await assert.rejects(oneMessage(bytes(`{"message":${list(101, '1E+10000')}${padding}}`)), { status: 400 })
    assert.ok(await oneMessage(bytes(`{"message":["1e9999999",true,1e300]${padding}}`)))
  }
})

test('queue body: the length of an id list is checked before it is parsed', () => {
  assert.equal(parseMessageIds(bytes(`{"msg_ids":${list(10_000, '9007199254740991')}}`)).ids.length, 10_000)
  assert.throws(() => parseMessageIds(bytes(`{"msg_ids":${list(10_001, '9007199254740991')}}`)), {
    status: 400,
  })
  assert.throws(() => parseMessageIds(bytes(`{"msg_ids":${list(60_000, '1')}}`)), { status: 413 })
  assert.throws(() => parseReadOptions(bytes(`{"vt":${list(60_000, '1')}}`)), { status: 413 })
})
