import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readRecord } from './record.ts'

const hash = '$2b$10$z9DePReB23mYdLONiwhji.hcfZE4YvgBsEPBYeqja18K77AICoq3e'
const email = 'ann@example.test'
const error = (record: unknown) => {
  const read = readRecord(record)
  return 'error' in read ? read.error : undefined
}
const user = (record: unknown) => {
  const read = readRecord(record)
  assert.ok('user' in read, JSON.stringify(read))
  return read.user
}

test('user import: a record is stored unchanged, except that address and id become lower case', () => {
  const given = {
    id: '7C3E9A52-0000-4000-8000-00000000000A',
    email: ' Ann@Example.test ',
    password_hash: hash,
    email_confirmed_at: '2021-03-04T05:06:07.123456+00:00',
    created_at: '2020-01-02 03:04:05.6789+00',
    raw_user_meta_data: { a: { b: [1] } },
  }
  assert.deepEqual(user(given), {
    id: '7c3e9a52-0000-4000-8000-00000000000a',
    email,
    password_hash: hash,
    email_confirmed_at: given.email_confirmed_at,
    created_at: given.created_at,
    user_metadata: given.raw_user_meta_data,
  })
})

test('user import: times need a time zone, in the format of JSON or of Postgres', () => {
  for (const time of [
    '2020-01-02T03:04:05Z',
    '2020-01-02t03:04:05.1z',
    '2020-01-02 03:04:05+02',
    '2020-01-02 03:04:05-0330',
    '2020-01-02T03:04:05.123456789+05:45',
  ])
    assert.equal(user({ email, created_at: time }).created_at, time)
  for (const time of [
    '2020-01-02',
    '2020-01-02T03:04:05',
    'now',
    'infinity',
    '',
    0,
    true,
    '2020-01-02T03:04Z',
  ])
    assert.match(error({ email, created_at: time })!, /^created_at /, String(time))
})

test('user import: bcrypt hashes of cost 4 to 14 are valid', () => {
  const at = (cost: string) => ({ email, password_hash: hash.replace('$10$', `$${cost}$`) })
  for (const cost of ['04', '10', '14']) assert.ok(user(at(cost)).password_hash)
  for (const cost of ['15', '20', '31', '99']) assert.match(error(at(cost))!, /above 14/)
  for (const cost of ['00', '03']) assert.match(error(at(cost))!, /below 4/)
  for (const cost of ['4', '010', '-1', 'ab']) assert.match(error(at(cost))!, /not a bcrypt hash/)
  assert.match(error({ email, password_hash: `${hash}\n` })!, /not a bcrypt hash/)
})

test('user import: metadata over 8000 bytes is rejected without serializing it', () => {
  const large = (metadata: object) => error({ email, raw_user_meta_data: metadata })
  assert.equal(large({ a: 'x'.repeat(7900) }), undefined)
  for (const metadata of [
    { a: 'x'.repeat(8000) },
    { a: 'é'.repeat(4000) },
    { a: Array(4000).fill(0) },
    { [`${'k'.repeat(8000)}`]: 1 },
    { a: ','.repeat(5000) },
  ])
    assert.match(large(metadata)!, /larger than 8000 bytes/)
  const unwritable = {
    text: 'x'.repeat(8001),
    toJSON() {
      throw new Error('was written')
    },
  }
  assert.match(large(unwritable)!, /larger than 8000 bytes/)
})

test('user import: a NUL in metadata is invalid, an escaped backslash before u0000 is valid', () => {
  for (const given of [{ a: '\0' }, { 'a\0': 1 }, { a: [{ b: 'x\0y' }] }, { a: '\\\0' }])
    assert.match(error({ email, raw_user_meta_data: given })!, /NUL/, JSON.stringify(given))
  for (const given of [{ a: '\\u0000' }, { a: '\\\\u0000' }, { a: 'u0000' }])
    assert.deepEqual(user({ email, raw_user_meta_data: given }).user_metadata, given)
})
