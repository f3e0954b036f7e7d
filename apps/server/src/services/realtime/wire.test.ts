import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce } from '#src/kernel/slices.ts'
import { BroadcastFrames } from './broadcast.ts'
import {
  decode,
  decodeLarge,
  encodeMessage,
  encodeUserBroadcast,
  Malformed,
  type Message,
  maxBuiltValues,
  maxFrameValues,
  type UserPush,
} from './wire.ts'

const text = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
const message = (data: Buffer, version: '1.0.0' | '2.0.0' = '2.0.0') =>
  decode(data, false, version) as Message

/** A kind-3 frame as the client makes it. */
function push(parts: [string, string, string, string, string], encoding: number, payload: Buffer): Buffer {
  const texts = parts.map(each => Buffer.from(each))
  return Buffer.concat([Buffer.from([3, ...texts.map(each => each.length), encoding]), ...texts, payload])
}
/** What a small frame holds. */
const unframed = (frame: Buffer) => frame.subarray(2)

test('wire: a frame is an array in 2.0.0 and an object in 1.0.0', () => {
  const { joinRef, ref, topic, event, payload } = message(text(['1', '2', 'realtime:x', 'e', { a: 1 }]))
  assert.deepEqual(
    { joinRef, ref, topic, event, payload },
    { joinRef: '1', ref: '2', topic: 'realtime:x', event: 'e', payload: { a: 1 } },
  )
  const old = message(text({ topic: 't', event: 'e', payload: {}, ref: '7' }), '1.0.0')
  assert.deepEqual([old.joinRef, old.ref, old.topic, old.event], [null, '7', 't', 'e'])
  assert.throws(() => message(text({ topic: 't', event: 'e', payload: {}, ref: '7' })), Malformed)
  assert.throws(() => message(text([null, '2', 't', 'e', {}]), '1.0.0'), Malformed)
})

const large = (data: Buffer, version: '1.0.0' | '2.0.0' = '2.0.0', isBinary = false) =>
  atOnce(decodeLarge(data, isBinary, version))
/** Both ways of decoding, which must not differ. */
const ways = [message, large as typeof message]

test('wire: the payload of a broadcast is passed on unchanged', () => {
  const payload = '{"n": 12345678901234567890, "e":1e400,"s":"a,]}\\"\\ud800","__proto__":{"x":1}}'
  for (const decoded of ways) {
    const v2 = decoded(Buffer.from(`["1", null ,"t","broadcast",{"event":"x", "payload": ${payload} }]`))
    assert.equal(String(v2.innerPayload()), payload)
    assert.equal((v2.payload as { event: string }).event, 'x')
    const v1 = decoded(
      Buffer.from(
        `{"payload":1,"topic":"t","event":"broadcast", "payload" : {"payload":1,"payload" :${payload}} , "ref":null}`,
      ),
      '1.0.0',
    )
    assert.equal(String(v1.innerPayload()), payload)
    assert.equal(decoded(text(['1', null, 't', 'broadcast', { event: 'x' }])).innerPayload(), undefined)
    assert.equal(decoded(text(['1', null, 't', 'broadcast', 7])).innerPayload(), undefined)
  }
})

test('wire: a large join is decoded as deep as joins are read', () => {
  const subscription = { event: '*', schema: 'public', table: 't', filter: 'a=eq.1', select: ['a', 'b'] }
  const payload = { access_token: 'x', config: { private: true, postgres_changes: [subscription] } }
  for (const decoded of ways)
    assert.deepEqual(decoded(text([null, '1', 'realtime:x', 'phx_join', payload])).payload, payload)
})

test('wire: a large frame has a limited number of values, lower for events that are not broadcasts', () => {
  const list = (count: number) => `[${Array(count).fill('0').join()}]`
  const frame = (event: string, count: number) =>
    Buffer.from(`[null,null,"t","${event}",{"event":"x","payload":${list(count)}}]`)
  assert.ok(large(frame('broadcast', maxFrameValues - 8)))
  assert.throws(() => large(frame('broadcast', maxFrameValues)), /^Error: .*500000 values/)
  assert.ok(large(frame('phx_join', maxBuiltValues - 8)))
  assert.throws(() => large(frame('phx_join', maxBuiltValues)), Malformed)
  for (const broken of ['[null,null,"t","broadcast",{"payload":[1,}]', '', '[1,2]', '{}'])
    assert.throws(() => large(Buffer.from(broken)), Malformed)
})

test('wire: a large binary push is validated in slices', () => {
  const pushed = (payload: string) => push(['1', '2', 't', 'e', ''], 1, Buffer.from(payload))
  const decoded = large(pushed('{"a":[1]}'), '2.0.0', true) as UserPush
  assert.equal(String(decoded.bytes), '{"a":[1]}')
  for (const payload of ['{', '', '[1,]'])
    assert.throws(() => large(pushed(payload), '2.0.0', true), Malformed)
  assert.throws(() => large(pushed('{}'), '1.0.0', true), Malformed)
})

test('wire: a binary push is decoded by its length fields', () => {
  const { joinRef, ref, topic, userEvent, isJson, bytes } = decode(
    push(['1', '', 'realtime:ü', 'move', '{"m":1}'], 1, text({ a: 1 })),
    true,
    '2.0.0',
  ) as UserPush
  assert.deepEqual(
    [joinRef, ref, topic, userEvent, isJson, String(bytes)],
    ['1', null, 'realtime:ü', 'move', true, '{"a":1}'],
  )
})

test('wire: invalid UTF-8 in a JSON payload is replaced before it is passed on', () => {
  const { bytes } = decode(
    push(['', '', 't', 'e', ''], 1, Buffer.from([0x22, 0xff, 0x22])),
    true,
    '2.0.0',
  ) as UserPush
  assert.equal(bytes.toString(), '"\ufffd"')
})

const malformed: [string, Buffer, boolean][] = [
  ['nothing', Buffer.alloc(0), false],
  ['no JSON', text('{'), false],
  ['a number', text('1'), false],
  ['too few elements', text(['1', '2', 't', 'e']), false],
  ['a topic that is no text', text([null, null, 1, 'e', {}]), false],
  ['a ref that is an object', text([null, {}, 't', 'e', {}]), false],
  ['a ref without end', text([null, 'x'.repeat(256), 't', 'e', {}]), false],
  ['an event without end', text([null, null, 't', 'e'.repeat(256), {}]), false],
  ['no bytes', Buffer.alloc(0), true],
  ['another kind', Buffer.from([0, 1, 1, 1, 1, 1, 1, 1]), true],
  ['lengths past the end', Buffer.from([3, 255, 255, 255, 255, 255, 0]), true],
  ['a head that is cut short', Buffer.from([3, 0, 0, 0]), true],
  ['an unknown encoding', push(['', '', 't', 'e', ''], 2, text('{}')), true],
  ['a payload that is not the JSON it is said to be', push(['', '', 't', 'e', ''], 1, text('{}}')), true],
]
for (const [what, data, isBinary] of malformed)
  test(`wire: ${what} is malformed`, () => assert.throws(() => decode(data, isBinary, '2.0.0'), Malformed))

test('wire: random bytes decode to a message or throw Malformed', () => {
  let seed = 42
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    return seed % below
  }
  const valid = [
    [
      text([
        '1',
        '2',
        'realtime:x',
        'broadcast',
        { type: 'broadcast', event: 'e', payload: { a: [1, 'é'] } },
      ]),
      false,
    ],
    [
      text({ topic: 'realtime:x', event: 'presence', payload: { event: 'track', payload: {} }, ref: '1' }),
      false,
    ],
    [push(['1', '2', 'realtime:x', 'e', ''], 1, text({ a: 1 })), true],
  ] as const
  for (let round = 0; round < 20_000; round++) {
    const [start, isBinary] = valid[random(valid.length)]!
    const data = Buffer.from(start.subarray(0, random(4) === 0 ? random(start.length) : start.length))
    for (let change = random(4); change > 0 && data.length > 0; change--)
      data[random(data.length)] = random(256)
    const version = random(2) === 0 ? '1.0.0' : '2.0.0'
    try {
      const decoded = decode(data, isBinary, version)
      if ('innerPayload' in decoded) {
        const inner = decoded.innerPayload()
        const { payload } = (decoded.payload ?? {}) as { payload?: unknown }
        assert.deepEqual(inner && JSON.parse(String(inner)), payload)
      }
    } catch (error) {
      assert.ok(error instanceof Malformed, `${data.toString('hex')}: ${error}`)
    }
  }
})

test('wire: deep nesting is a valid message', () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  const frame = Buffer.from(`[null,null,"t","broadcast",{"payload":${deep}}]`)
  for (const decoded of ways) assert.equal(String(decoded(frame).innerPayload()), deep)
})

test('wire: frames of any length have the right WebSocket header', () => {
  for (const length of [0, 125, 126, 65_535, 65_536]) {
    const payload = 'x'.repeat(length)
    const frame = encodeMessage('2.0.0', 't', 'e', JSON.stringify(payload))
    const size =
      frame[1]! < 126
        ? frame[1]!
        : frame[1] === 126
          ? frame.readUInt16BE(2)
          : Number(frame.readBigUInt64BE(2))
    const head = frame[1]! < 126 ? 2 : frame[1] === 126 ? 4 : 10
    assert.equal(frame[0], 0x81)
    assert.equal(size, frame.length - head)
    assert.deepEqual(JSON.parse(frame.toString('utf8', head)), [null, null, 't', 'e', payload])
  }
})

test('wire: a reply has its refs in both versions, also for a topic with an unpaired surrogate', () => {
  assert.equal(
    String(unframed(encodeMessage('2.0.0', 't\ud800', 'e', '{}', '1', '2'))),
    '["1","2","t\\ud800","e",{}]',
  )
  assert.equal(
    String(unframed(encodeMessage('1.0.0', 't', 'e', '{}', '1', '2'))),
    '{"topic":"t","event":"e","payload":{},"ref":"2","join_ref":"1"}',
  )
})

test('wire: a binary broadcast is a kind 4 frame in 2.0.0 and omitted in 1.0.0; a JSON broadcast is text in both', () => {
  const bytes = new BroadcastFrames('realtime:x', {
    event: 'e',
    isJson: false,
    payload: Buffer.from([1, 2]),
    meta: '',
  })
  assert.equal(bytes.of('1.0.0'), undefined)
  assert.deepEqual(bytes.of('2.0.0'), encodeUserBroadcast('realtime:x', 'e', '', false, Buffer.from([1, 2])))
  assert.deepEqual([...unframed(bytes.of('2.0.0')!)], [4, 10, 1, 0, 0, ...Buffer.from('realtime:xe'), 1, 2])
  const json = new BroadcastFrames('realtime:x', {
    event: 'e',
    isJson: true,
    payload: text('12345678901234567890'),
    meta: '{"id":"i"}',
  })
  assert.equal(
    String(unframed(json.of('2.0.0')!)),
    '[null,null,"realtime:x","broadcast",{"type":"broadcast","event":"e","payload":12345678901234567890,"meta":{"id":"i"}}]',
  )
  assert.equal(json.of('2.0.0'), json.of('2.0.0'))
})
