// Checks that need no Postgres server. test/driver-internals.test.ts has the others.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, Socket } from 'node:net'
import { test } from 'node:test'
import { Client, DatabaseError as DriverError, Pool, Query } from 'pg'
import { DatabaseError } from './database-error.ts'
import {
  fromDriver,
  isDriverConnectionLoss,
  isPoolClosed,
  resizePool,
  singleStatement,
  socketOf,
} from './driver-internals.ts'

const moved = (what: string) =>
  `this version of pg has moved ${what}: adapt kernel/postgres/driver-internals.ts`

test('a client has its socket before it connects', () => {
  const client = new Client()
  assert.ok(socketOf(client) instanceof Socket, moved('client.connection.stream'))
  for (const field of ['processID', 'secretKey']) assert.ok(field in client, moved(`client.${field}`))
})

test('a single statement always uses the extended protocol', () => {
  const query = new Query(singleStatement('select 1; select 2', [])) as unknown as {
    requiresPreparation(): boolean
  }
  assert.equal(query.requiresPreparation(), true, moved('queryMode'))
})

test('a pool can be resized while it runs', async () => {
  // A server that accepts connections and never answers: each client counts while it connects.
  const server = createServer(socket => socket.on('error', () => {})).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const pool = new Pool({ host: '127.0.0.1', port, max: 1, connectionTimeoutMillis: 200 })
  resizePool(pool, 2)
  const client = new Client({ host: '127.0.0.1', port, connectionTimeoutMillis: 200 })
  const failures = [1, 2, 3].map(() => pool.connect().catch((error: Error) => error))
  const { totalCount, waitingCount } = pool
  const settled = await Promise.all([...failures, client.connect().catch((error: Error) => error)])
  await pool.end()
  const closed = await pool.connect().catch((error: Error) => error)
  server.close()
  assert.deepEqual([totalCount, waitingCount], [2, 1], moved('pool.options.max'))
  for (const failure of settled)
    assert.ok(
      failure instanceof Error && isDriverConnectionLoss(failure),
      moved(`the text of the error after connectionTimeoutMillis ("${(failure as Error).message}")`),
    )
  assert.ok(closed instanceof Error && isPoolClosed(closed), moved('the text of the error of a closed pool'))
})

test('an error of the driver becomes a DatabaseError with the same fields and stack frames', () => {
  const error = new DriverError('duplicate key\n    at a line of the message', 1, 'error')
  Object.assign(error, {
    severity: 'ERROR',
    code: '23505',
    detail: 'Key (id)=(1)',
    hint: 'h',
    position: '7',
    where: 'w',
    schema: 's',
    table: 't',
    column: 'c',
    constraint: 'n',
    routine: 'r',
  })
  const converted = fromDriver(error)
  assert.ok(converted instanceof DatabaseError)
  assert.deepEqual(
    { ...converted, message: converted.message },
    {
      name: 'DatabaseError',
      message: error.message,
      severity: 'ERROR',
      code: '23505',
      detail: 'Key (id)=(1)',
      hint: 'h',
      position: 7,
      where: 'w',
      schema: 's',
      table: 't',
      column: 'c',
      constraint: 'n',
      routine: 'r',
      isWhileRunning: false,
      isAfterOthers: false,
    },
  )
  const frames = (stack = '') => stack.split('\n').filter(line => line.includes('driver-internals.test.ts'))
  assert.deepEqual(frames(converted.stack), frames(error.stack))
  assert.ok(frames(converted.stack).length > 0)
  assert.equal(
    converted.stack?.split('at a line of the message').length,
    2,
    'the stack contains the message once',
  )
})

test('other errors are returned unchanged', () => {
  const error = new Error('socket hang up')
  assert.equal(fromDriver(error), error)
})
