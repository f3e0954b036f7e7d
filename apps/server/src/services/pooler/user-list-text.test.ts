import assert from 'node:assert/strict'
import { test } from 'node:test'
import { userListText } from './user-list-text.ts'

const [a, b] = ['a', 'b'].map(letter => ({
  name: `p_${letter.repeat(20)}_owner`,
  verifier: `SCRAM ${letter}`,
}))

test('user list: a line for each user, with quotes doubled', () => {
  assert.equal(
    userListText('', [a!, { name: 'the "admin"', verifier: 'x' }]),
    `"p_aaaaaaaaaaaaaaaaaaaa_owner" "SCRAM a"\n"the ""admin""" "x"\n`,
  )
  assert.equal(userListText('', []), '')
})

test('user list: owners who are no longer given are removed, and users of the operator stay, after the others', () => {
  const operators = '; for Grafana\n"stats" "secret"\nnot readable\n"p_short_owner" "kept"'
  const before = userListText(`${operators}\n"admin" "plain text"\n\n`, [a!, b!])
  const after = userListText(before, [b!, { name: 'admin', verifier: 'SCRAM' }])
  assert.equal(after, `"${b!.name}" "SCRAM b"\n"admin" "SCRAM"\n${operators}\n`)
  assert.equal(userListText(after, [b!, { name: 'admin', verifier: 'SCRAM' }]), after)
})
