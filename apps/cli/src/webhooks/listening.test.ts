import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ReplyError } from '@plinth/contract/client.ts'
import { type ListenerQuery, runListening } from './listening.ts'

const delivery = (id: string) => ({ id, event: 'user.created', headers: {}, body: '{}' })

/** A platform with these answers, and a server that takes this long. */
async function listened(answers: (string[] | Error)[], secondsPerDelivery = 0) {
  const interruption = new AbortController()
  const queries: ListenerQuery[] = []
  const [forwarded, closed, opened]: string[][] = [[], [], []]
  let seconds = 0
  await runListening({
    open: async () => ({ id: String(opened!.length + 1), events: [], secret: '' }),
    async read(_id, query) {
      queries.push(query)
      if (query.limit === 0) return []
      const answer = answers.shift()
      if (answer === undefined) interruption.abort()
      if (answer instanceof Error) throw answer
      return (answer ?? []).map(delivery)
    },
    close: async id => closed!.push(id),
    async forward({ id }) {
      forwarded!.push(id)
      seconds += secondsPerDelivery
    },
    onOpened: ({ id }, isFirst) => opened!.push(`${id} ${isFirst}`),
    onTrouble: () => {},
    onRecovered: () => {},
    now: () => seconds * 1000,
    signal: interruption.signal,
  })
  return { queries, forwarded, opened, closed }
}

test('webhooks listen: each read acknowledges what was forwarded, also after a delivery with a lower id', async () => {
  const { queries, forwarded, closed } = await listened([['b', 'c'], [], ['a']])
  assert.deepEqual(forwarded, ['b', 'c', 'a'])
  assert.deepEqual(
    queries.map(({ after }) => after),
    [undefined, 'c', 'c', 'c'],
  )
  assert.deepEqual(closed, ['1'])
})

test('webhooks listen: a slow server does not let the listener expire', async () => {
  const slow = await listened([['a', 'b', 'c']], 15)
  assert.deepEqual(slow.queries, [
    { wait_seconds: 20 },
    { wait_seconds: 0, limit: 0, after: 'b' },
    { wait_seconds: 20, after: 'c' },
  ])
  const quick = await listened([['a', 'b', 'c']], 1)
  assert.equal(quick.queries.length, 2)
})

test('webhooks listen: a listener that has expired is replaced, and the new one is closed', async () => {
  const gone = new ReplyError(404, { error: { code: 'webhook_not_found', message: 'gone' } }, null)
  const { forwarded, opened, closed } = await listened([['a'], gone, ['b']])
  assert.deepEqual(forwarded, ['a', 'b'])
  assert.deepEqual(opened, ['1 true', '2 false'])
  assert.deepEqual(closed, ['2'])
})

test('webhooks listen: an error that stays ends it and closes the listener', async () => {
  const refused = new ReplyError(403, { error: { code: 'insufficient_scope', message: 'no' } }, null)
  await assert.rejects(listened([['a'], refused]), refused)
})
