page.drawPage();
