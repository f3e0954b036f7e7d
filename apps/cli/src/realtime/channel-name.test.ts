import assert from 'node:assert/strict'
import { test } from 'node:test'
import { channelName } from './channel-name.ts'

test('channel name: a table alone, with its schema, as a topic, or with a filter', () => {
  const todos = { schema: 'public', table: 'todos' }
  assert.deepEqual(channelName('todos'), { topic: 'realtime:public:todos', table: todos, isTable: true })
  assert.deepEqual(channelName('public:todos'), channelName('todos'))
  assert.deepEqual(channelName('realtime:public:todos'), { ...channelName('todos'), isTable: false })
  assert.deepEqual(channelName('api:todos:at=gt.10:30').table, {
    schema: 'api',
    table: 'todos',
    filter: 'at=gt.10:30',
  })
})

test('channel name: any other channel follows realtime:', () => {
  assert.deepEqual(channelName('realtime:room-1'), { topic: 'realtime:room-1', table: null, isTable: false })
})

test('channel name: an empty name is rejected', () => {
  for (const wrong of ['realtime:', ':', ':todos', 'public:', 'public::x'])
    assert.throws(() => channelName(wrong), { code: 'usage_invalid_value' }, wrong)
})
