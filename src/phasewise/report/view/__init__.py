"""What every form of a report says, free of how it looks: sentences, tables and parts of a bar.

Terminal, HTML and Markdown lay out the same views, so no form can say more, or something else, than another. All text
in a view is clean (``words.clean``); escaping for its own syntax is each form's job.
"""
