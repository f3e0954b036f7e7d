import assert from 'node:assert/strict'
import { test } from 'node:test'
import { childrenOf } from './command.ts'
import { candidates } from './commands/completion.ts'
import { groups, sections, tree } from './commands.ts'
import { help } from './help.ts'

test('commands: every command has code and a unique name', async () => {
  const paths = tree.commands.map(command => command.path)
  assert.deepEqual(paths, [...new Set(paths)])
  for (const command of tree.commands) assert.equal(typeof (await command.load()), 'function', command.path)
})

test('commands: a flag takes a value in every command or in none, because it is parsed before the command is known', () => {
  const flags = [...tree.flags, ...tree.commands.flatMap(command => command.flags ?? [])]
  for (const flag of flags)
    for (const other of flags.filter(each => each.name === flag.name))
      assert.equal(Boolean(flag.value), Boolean(other.value), flag.name)
})

test('help: lists every group and command with a summary', () => {
  const shown = sections.flatMap(([, names]) => names)
  assert.deepEqual(shown.toSorted(), childrenOf([], tree).toSorted())
  for (const name of shown)
    assert.ok(groups[name] ?? tree.commands.some(command => command.path === name), name)
})

test('help: describes a command, a group or everything; an unknown word gives null', () => {
  assert.match(help([], '1.2.3')!, /^plinth 1\.2\.3/)
  assert.match(help(['--help', 'projects'], '1')!, /projects create <name>/)
  assert.match(help(['project', 'create', '-h'], '1')!, /--slug <slug>/)
  assert.match(help(['--url', 'http://x', 'token', 'mint', '--help'], '1')!, /--name <name> --scope <scope>/)
  assert.match(help(['help', 'secrets', 'rotate'], '1')!, /secrets rotate jwt/)
  assert.equal(help(['webhooks', 'create', '-h'], '1')!.match(/--url <url> {2}/g)?.length, 1)
  assert.equal(help(['nonsense', '--help'], '1'), null)
})

test('completion: offers commands, flags and choices', () => {
  assert.deepEqual(candidates(['projects'], 'su', tree), ['suspend'])
  assert.deepEqual(candidates(['project'], 'cr', tree), ['create'])
  assert.deepEqual(candidates([], 'he', tree), ['health'])
  assert.deepEqual(candidates(['token', 'mint'], '--sc', tree), ['--scope'])
  assert.deepEqual(candidates(['token', 'mint', '--scope'], '', tree), ['admin', 'deploy', 'read'])
  assert.deepEqual(candidates(['config', 'set'], '', tree), ['url', 'project'])
  assert.deepEqual(candidates(['webhooks', 'create'], '--u', tree), ['--url'])
  assert.deepEqual(candidates(['nonsense'], '', tree), [])
})
