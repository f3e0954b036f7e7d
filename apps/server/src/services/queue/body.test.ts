import assert from 'node:assert/strict'
import { test } from 'node:test'
import { manyMessages, oneMessage, readWish, settleWish } from './body.ts'

const bytes = (text: string) => Buffer.from(text)
const refused = (parse: () => unknown, words: RegExp) =>
  assert.throws(parse, error => {
    assert.equal((error as { status: number }).status, 400)
    assert.match((error as Error).message, words)
    return true
  })

test('a message is handed on as it came', () => {
  const json = bytes('{"message": 12345678901234567890, "delay": 5, "headers": {"a": 1}}')
  assert.deepEqual(oneMessage(json), { json, delay: 5 })
  assert.equal(oneMessage(bytes('{"message":null,"headers":null}')).delay, 0)
  assert.equal(manyMessages(bytes('{"messages":[1,{"__proto__":2}],"headers":[null,{}]}')).delay, 0)
  assert.deepEqual(readWish(bytes('{"vt":0}')), { vt: 0, qty: 1 })
  assert.deepEqual(settleWish(bytes('{"msg_id":3}')), { ids: [3], areMany: false })
  assert.deepEqual(settleWish(bytes('{"msg_ids":[]}')), { ids: [], areMany: true })
})

test('what is wrong with a body is named', () => {
  for (const text of ['null', '[]', '"a"']) refused(() => oneMessage(bytes(text)), /must be an object/)
  refused(() => oneMessage(bytes('{}')), /must have the field "message"/)
  refused(() => oneMessage(bytes('{"message":1,"dely":1}')), /unknown field "dely"/)
  for (const delay of ['-1', '1.5', '"1"', 'null', '1e12'])
    refused(() => oneMessage(bytes(`{"message":1,"delay":${delay}}`)), /"delay"/)
  for (const headers of ['1', '[]', '"a"'])
    refused(() => oneMessage(bytes(`{"message":1,"headers":${headers}}`)), /"headers"/)
  refused(() => manyMessages(bytes('{"messages":{}}')), /"messages"/)
  refused(() => manyMessages(bytes('{"messages":[1],"headers":[]}')), /one element for each/)
  refused(() => manyMessages(bytes('{"messages":[1],"headers":[2]}')), /"headers.0"/)
  for (const body of ['{}', '{"msg_id":1,"msg_ids":[1]}']) refused(() => settleWish(bytes(body)), /either/)
  for (const id of ['0', '-1', '1.5', '"1"', 'null', '9007199254740992'])
    for (const body of [`{"msg_id":${id}}`, `{"msg_ids":[1,${id}]}`])
      refused(() => settleWish(bytes(body)), /"msg_id/)
  refused(() => settleWish(bytes('{"msg_ids":1}')), /"msg_ids"/)
  for (const body of ['{"vt":-1}', '{"vt":"1"}']) refused(() => readWish(bytes(body)), /"vt"/)
  for (const qty of ['0', '1001', '1.5', 'null'])
    refused(() => readWish(bytes(`{"vt":1,"qty":${qty}}`)), /"qty"/)
})

test('numbers that would fill memory when written out are refused', () => {
  for (const number of ['1e-9999', '1E+9999', '-1.5e9999']) {
    oneMessage(bytes(`{"message":[${Array(100).fill(number).join()}]}`))
    refused(() => oneMessage(bytes(`{"message":[${Array(101).fill(number).join()}]}`)), /written out/)
  }
  oneMessage(bytes(`{"message":[true,false,"1e999999","\\"1e999999"]}`))
})
