import { deepEqual, equal, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { checkEvents, checkOperations, readRowChange, selection } from './events.ts'

test('events: the names of the specification are accepted, once each', () => {
  deepEqual(checkEvents(['user.created', 'db.public.todos.insert', 'db.public.todos.*', '*', '*']), [
    'user.created',
    'db.public.todos.insert',
    'db.public.todos.*',
    '*',
  ])
})

for (const event of [
  '',
  'user.*',
  'user.renamed',
  'db.*',
  'db.public.*',
  'db.public.todos',
  'db..todos.insert ',
  'DB.a.b.insert',
  'db.a.b.truncate',
  'db.a.b.INSERT',
])
  test(`events: ${JSON.stringify(event)} is rejected`, () => {
    throws(() => checkEvents([event]), { code: 'invalid_webhook_event' })
  })

test('events: a webhook gets what its events name', () => {
  const selects = selection(['user.created', 'db.public.todos.insert', 'db.app.notes.*'])
  const given = [
    'user.created',
    'user.deleted',
    'db.public.todos.insert',
    'db.public.todos.update',
    'db.app.notes.delete',
    'db.app.notes2.delete',
  ]
  deepEqual(given.filter(selects), ['user.created', 'db.public.todos.insert', 'db.app.notes.delete'])
  equal(selection(['*'])('db.any.table.delete'), true)
})

test('events: operations are uppercased and ordered, and all by default', () => {
  deepEqual(checkOperations(['delete', 'Insert', 'insert']), ['INSERT', 'DELETE'])
  deepEqual(checkOperations(), ['INSERT', 'UPDATE', 'DELETE'])
  throws(() => checkOperations(['truncate']), { code: 'invalid_webhook_event' })
})

test('events: a row change has a schema, a table and an operation', () => {
  deepEqual(readRowChange('db.public.my.table.delete'), {
    schema: 'public',
    table: 'my.table',
    operation: 'DELETE',
  })
  equal(readRowChange('user.created'), undefined)
})
