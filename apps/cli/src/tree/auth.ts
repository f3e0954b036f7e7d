// Commands about people: who works on a project, and who uses it.
import type { Command, Flag } from '../command.ts'

const memberRoles = ['owner', 'admin', 'editor', 'read_only'] as const

const email: Flag = { name: 'email', value: 'address', summary: 'whom to invite', isRequired: true }
const member = { name: 'user', summary: 'the id or e-mail address of the member' } as const

const invites: readonly Command[] = [
  {
    path: 'auth invites create',
    summary: 'Invite somebody to the project; the token is shown once',
    flags: [
      email,
      {
        name: 'role',
        value: 'role',
        choices: memberRoles,
        summary: 'What they become; editor when left out',
      },
    ],
    examples: ['plinth auth invites create --email ann@example.com --role admin --project my-app'],
    load: () => import('../commands/team.ts').then(module => module.createInvite),
  },
  {
    path: 'auth invites list',
    summary: 'List pending invites, never their tokens',
    load: () => import('../commands/team.ts').then(module => module.listInvites),
  },
  {
    path: 'auth invites revoke',
    summary: 'Revoke a pending invite at once',
    operands: [{ name: 'invite', summary: 'the id shown by plinth auth invites list' }],
    load: () => import('../commands/team.ts').then(module => module.revokeInvite),
  },
  {
    path: 'auth invites accept',
    summary: 'Join a project as the user whose session is in PLATFORM_TOKEN',
    operands: [{ name: 'token', summary: 'the token of the invite' }],
    load: () => import('../commands/team.ts').then(module => module.acceptInvite),
  },
]

const members: readonly Command[] = [
  {
    path: 'auth members list',
    summary: 'List the members of the project, owners first',
    load: () => import('../commands/team.ts').then(module => module.listMembers),
  },
  {
    path: 'auth members set-role',
    summary: 'Change the role of a member',
    operands: [member, { name: 'role', summary: memberRoles.join(', '), choices: memberRoles }],
    examples: ['plinth auth members set-role ann@example.com owner'],
    load: () => import('../commands/team.ts').then(module => module.setRole),
  },
  {
    path: 'auth members remove',
    summary: 'Remove a member from the project',
    operands: [member],
    load: () => import('../commands/team.ts').then(module => module.removeMember),
  },
]

export const authCommands: readonly Command[] = [...invites, ...members]
