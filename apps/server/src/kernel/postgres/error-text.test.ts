import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sanitizeErrorText } from './error-text.ts'

const cleaned = (code: string, text: string, routine = 'errfinish') => sanitizeErrorText(text, code, routine)

test('error texts: files are named without their directory', () => {
  for (const [code, text, expected] of [
    [
      '0A000',
      'Could not open extension control file "/opt/pg/share/extension/x.control": No such file or directory.',
      'Could not open extension control file "x.control": No such file or directory.',
    ],
    [
      '58P01',
      'could not load library "/opt/pg/lib/plperl.so": libperl.so.5.36: cannot open shared object file',
      'could not load library "plperl.so": libperl.so.5.36: cannot open shared object file',
    ],
    [
      'XX000',
      'could not load library "/opt/pg/lib/x.so": /opt/pg/lib/x.so: undefined symbol: y',
      'could not load library "x.so": x.so: undefined symbol: y',
    ],
    [
      '58P01',
      'could not access file "$libdir/x": No such file',
      'could not access file "$libdir/x": No such file',
    ],
    [
      '53100',
      'could not write to file "base/pgsql_tmp/pgsql_tmp12.0": No space left on device',
      'could not write to file "pgsql_tmp12.0": No space left on device',
    ],
    [
      '42501',
      'could not open file "/etc/shadow": Permission denied',
      'could not open file "shadow": Permission denied',
    ],
    ['42501', 'permission denied for table /a/b', 'permission denied for table /a/b'],
  ] as const)
    assert.equal(cleaned(code, text), expected)
})

test('error texts: values of a tenant are not changed', () => {
  for (const code of ['22P02', 'P0001', '23505', '42601'])
    assert.equal(cleaned(code, 'invalid input: "/a/b/c"'), 'invalid input: "/a/b/c"')
  assert.equal(cleaned('58P01', 'see "/docs/a"', 'exec_stmt_raise'), 'see "/docs/a"')
  assert.equal(sanitizeErrorText(undefined, '58P01', undefined), undefined)
})

test('error texts: a long text is truncated', () => {
  assert.equal(cleaned('P0001', 'x'.repeat(1_000_000)).length, 64 * 1024 + 1)
  // Every character could begin a path.
  for (const unit of ['/', '"/', '/a', '/a/', '"/a', '"base/', '"pg_'])
    assert.ok(cleaned('XX000', `"/${unit.repeat(1_000_000)}`).length <= 64 * 1024 + 1)
  for (const unit of ['/', 'a']) assert.ok(cleaned('XX000', unit.repeat(1_000_000)).length <= 64 * 1024 + 1)
})
