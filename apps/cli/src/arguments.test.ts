import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findCommand, type Given, parseArguments, tokenise, wordsOf } from './arguments.ts'
import { tree } from './commands.ts'
import { Failure } from './failure.ts'

function parse(line: string): Given & { path: string } {
  const tokens = tokenise(line.split(' '), tree)
  const { command, rest } = findCommand(wordsOf(tokens), tree)
  return { path: command.path, ...parseArguments(command, rest, tokens, tree) }
}

function refusal(line: string): Failure {
  try {
    parse(line)
  } catch (error) {
    assert.ok(error instanceof Failure, String(error))
    return error
  }
  return assert.fail(`${line} was accepted`)
}

test('arguments: flags may come before, between and after the words of a command', () => {
  for (const line of [
    '--url http://x projects create demo --slug d',
    'projects --url http://x create --slug=d demo',
    'projects create demo --url=http://x --slug d',
  ]) {
    const { path, operands, values } = parse(line)
    assert.deepEqual(
      { path, operands, values },
      {
        path: 'projects create',
        operands: { name: 'demo' },
        values: { url: 'http://x', slug: 'd' },
      },
    )
  }
})

test('arguments: a short flag takes its value attached or separate; a switch takes none', () => {
  assert.equal(parse('health -o text').values['output'], 'text')
  assert.equal(parse('health -ojson').values['output'], 'json')
  assert.ok(parse('down -y --volumes').switches.has('yes'))
  assert.ok(!parse('down --volumes=false').switches.has('volumes'))
  assert.equal(refusal('down --volumes=some').code, 'usage_invalid_value')
})

test('arguments: a repeatable flag keeps every value, any other the last one', () => {
  const { values } = parse('functions invoke hello -H A:1 --header B:2 --path /x --path /y')
  assert.deepEqual(values, { header: 'A:1\nB:2', path: '/y' })
})

test('arguments: --url of a webhook is not that of the platform, which comes before the command', () => {
  const own = parse('webhooks create --url http://receiver --events *').values
  assert.deepEqual(own, { 'webhook-url': 'http://receiver', events: '*' })
  const both = parse('--url http://platform webhooks create --events * --url http://receiver').values
  assert.deepEqual(both, { url: 'http://platform', 'webhook-url': 'http://receiver', events: '*' })
  assert.match(refusal('--url http://platform webhooks create --events *').message, /^--url is missing/)
})

test('arguments: everything after -- is a word', () => {
  assert.deepEqual(parse('projects create -- --odd').operands, { name: '--odd' })
})

test('arguments: the singular of a group is an alias', () => {
  assert.equal(parse('project list').path, 'projects list')
})

test('arguments: an unknown command suggests the closest one', () => {
  assert.equal(refusal('projcts list').suggestion, 'Did you mean plinth projects?')
  assert.equal(refusal('projects lsit').suggestion, 'Did you mean plinth projects list?')
  assert.equal(refusal('secrets rotate jtw').suggestion, 'Did you mean plinth secrets rotate jwt?')
  assert.equal(refusal('constructor').code, 'usage_unknown_command')
  assert.match(refusal('zzzzzzzz').suggestion!, /--help lists/)
})

test('arguments: a group without a command lists its commands', () => {
  const { code, message } = refusal('secrets rotate')
  assert.equal(code, 'usage_missing_command')
  assert.match(message, /jwt, api-keys/)
})

test('arguments: an unknown flag suggests the closest one; flags of other commands are unknown', () => {
  assert.equal(refusal('projects create demo --slig x').suggestion, 'Did you mean --slug?')
  assert.equal(refusal('projects list --volumes').code, 'usage_unknown_flag')
})

test('arguments: a missing or invalid flag value is rejected', () => {
  assert.equal(refusal('token mint --name --scope read').code, 'usage_missing_value')
  const { code, message } = refusal('token mint --name ci --scope raed')
  assert.equal(code, 'usage_invalid_value')
  assert.match(message, /admin, deploy, read/)
})

test('arguments: missing and unexpected arguments are named', () => {
  assert.match(refusal('projects create').message, /<name> is missing/)
  assert.match(refusal('token mint --name ci').message, /--scope is missing: one of admin, deploy, read/)
  assert.equal(refusal('projects create a b').code, 'usage_unexpected_argument')
})

test('arguments: a negative number is a value', () => {
  assert.equal(parse('audit prune --days -5').values['days'], '-5')
})
