// Commands for users, sessions, invites and members of a project.
import type { Command, Flag } from '../command.ts'

const memberRoles = ['owner', 'admin', 'editor', 'read_only'] as const

const email: Flag = { name: 'email', value: 'address', summary: 'the address to invite', isRequired: true }
const member = { name: 'user', summary: 'the id or e-mail address of the member' } as const

const invites: readonly Command[] = [
  {
    path: 'auth invites create',
    summary: 'Create an invite to the project; the token is shown once',
    flags: [
      email,
      {
        name: 'role',
        value: 'role',
        choices: memberRoles,
        summary: 'The role of the member; default editor',
      },
    ],
    examples: ['plinth auth invites create --email ann@example.com --role admin --project my-app'],
    load: () => import('../commands/team.ts').then(module => module.createInvite),
  },
  {
    path: 'auth invites list',
    summary: 'List pending invites, without their tokens',
    load: () => import('../commands/team.ts').then(module => module.listInvites),
  },
  {
    path: 'auth invites revoke',
    summary: 'Revoke a pending invite',
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

const user = { name: 'user', summary: 'the id or e-mail address of the user' } as const
const ofUser: Flag = {
  name: 'user',
  value: 'id or address',
  summary: 'the user of the sessions',
  isRequired: true,
}

const users: readonly Command[] = [
  {
    path: 'auth users list',
    summary: 'List the users of the project, newest first',
    flags: [
      { name: 'search', value: 'text', summary: 'Only users whose address contains this' },
      { name: 'limit', value: 'number', summary: 'How many to show; default 100' },
    ],
    examples: ['plinth auth users list --search @example.com'],
    load: () => import('../commands/auth-users.ts').then(module => module.listUsers),
  },
  {
    path: 'auth users show',
    summary: 'Show one user',
    operands: [user],
    load: () => import('../commands/auth-users.ts').then(module => module.showUser),
  },
  {
    path: 'auth users create',
    summary: 'Create a user; the password comes from a prompt or standard input',
    flags: [
      { name: 'email', value: 'address', summary: 'the address of the user', isRequired: true },
      { name: 'no-password', summary: 'A user who signs in only by mail or a provider' },
    ],
    examples: ['plinth auth users create --email ann@example.com --project my-app'],
    load: () => import('../commands/auth-users.ts').then(module => module.createUser),
  },
  {
    path: 'auth users ban',
    summary: 'Ban a user, permanently unless --expires is given',
    operands: [user],
    flags: [
      { name: 'reason', value: 'text', summary: 'The reason, shown with the user' },
      { name: 'expires', value: 'when', summary: '12h, 90d, 4w, 6m, 1y or an RFC 3339 time; default never' },
    ],
    examples: ['plinth auth users ban ann@example.com --reason spam --expires 7d'],
    load: () => import('../commands/auth-users.ts').then(module => module.banUser),
  },
  {
    path: 'auth users unban',
    summary: 'Lift the ban of a user',
    operands: [user],
    load: () => import('../commands/auth-users.ts').then(module => module.unbanUser),
  },
  {
    path: 'auth users delete',
    summary: 'Delete a user with all identities and sessions',
    operands: [user],
    flags: [{ name: 'confirm', value: 'name', summary: 'The address or id, instead of the prompt' }],
    load: () => import('../commands/auth-users.ts').then(module => module.deleteUser),
  },
  {
    path: 'auth users import',
    summary: 'Import users with their ids, times and bcrypt hashes',
    operands: [
      {
        name: 'file',
        summary:
          'JSON: a list of {id, email, password_hash, email_confirmed_at, created_at, raw_user_meta_data}; - is standard input',
      },
    ],
    examples: ['plinth auth users import users.json --project my-app'],
    load: () => import('../commands/auth-import.ts').then(module => module.importUsers),
  },
]

const sessions: readonly Command[] = [
  {
    path: 'auth sessions list',
    summary: 'List the sessions of a user',
    flags: [ofUser],
    load: () => import('../commands/auth-users.ts').then(module => module.listSessions),
  },
  {
    path: 'auth sessions revoke',
    summary: 'End all sessions of a user, or one of them',
    flags: [ofUser, { name: 'session', value: 'id', summary: 'Only this session; default all' }],
    examples: ['plinth auth sessions revoke --user ann@example.com'],
    load: () => import('../commands/auth-users.ts').then(module => module.revokeSessions),
  },
]

export const authCommands: readonly Command[] = [...users, ...sessions, ...invites, ...members]
